"""Generated inputs: accepted as given or refused clearly, never anything else."""

import random

import pytest

from tests.bad_input import harness
from tests.bad_input.kinds import draw


def troubles(seed, count, readers=False):
    """What went wrong, as a text."""
    rng = random.Random(seed)
    out = []
    with harness.no_rounds():
        for _ in range(count):
            given = draw(rng, readers)
            found = harness.outcome(given)
            if found.trouble:
                told = given.call if isinstance(given.call, list) else given.kind
                out.append(f"{told}\n{found.trouble}\n{found.message}")
    return "\n\n".join(out)


def test_some(tmp_path, monkeypatch):
    """A traceback, a wrong acceptance, a value that changed or an unclear message."""
    monkeypatch.chdir(tmp_path)
    assert not troubles("some", 50)


@pytest.mark.thorough
def test_many(tmp_path, monkeypatch):
    """The same, of several hundred inputs; benchmarks/bad_input.py draws thousands."""
    monkeypatch.chdir(tmp_path)
    assert not troubles("many", 400)


@pytest.mark.thorough
def test_readers(tmp_path, monkeypatch):
    """Folders of results with a damaged file."""
    monkeypatch.chdir(tmp_path)
    assert not troubles("readers", 100, readers=True)


def test_trouble_is_seen():
    """A judge that is content with everything."""

    def refuse():
        raise ValueError("lr must be positive: got -1")

    def fail():
        raise TypeError("unexpected")

    def ask():
        raise ValueError("wrong")

    right = harness.Input("right", lambda: None)
    told = (("lr", "-1"),)
    assert not harness.outcome(right).trouble
    assert not harness.outcome(harness.Input("wrong", refuse, told)).trouble
    for given in (
        harness.Input("refused", refuse),
        harness.Input("accepted", lambda: None, told),
        harness.Input("other name", refuse, (("storm", "-1"),)),
        harness.Input("other value", refuse, (("lr", "-2"),)),
        harness.Input("a traceback", fail, told),
        harness.Input("unclear", ask, (("wrong",),)),
    ):
        assert harness.outcome(given).trouble, given.kind
    endless = harness.Input("endless", lambda: [None for _ in iter(int, 1)])
    assert "0.2 s" in harness.outcome(endless, seconds=0.2).trouble
