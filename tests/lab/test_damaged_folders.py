"""Folders that somebody has changed are refused by name, or what is lost run again."""

import dataclasses
import json

import pytest

import fedjax_mos as fm
from fedjax_mos.lab import folders
from fedjax_mos.lab.comparison_folder import claim, is_done
from fedjax_mos.lab.hypergradients.updates import Update, Updates
from fedjax_mos.lab.run_folder import repeated
from tests.lab.tiny import TINY

MEMBERS = {"a": TINY, "b": dataclasses.replace(TINY, seed=3)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "{}",
        '{"kind": "comparison"}',
        '{"kind": "run"}',
        '{"kind": "comparison", "complete": true, "seeds": 2, "members": 7}',
        '{"kind": "comparison", "complete": true, "seeds": 2, "members": ["a"], '
        '"experiments": {"a": []}}',
    ],
)
def test_comparisons(text, tmp_path):
    """A traceback instead of the name of a file."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FileExistsError, match=r"same comparison: .*config\.json"):
        fm.compare(MEMBERS, 2, out=tmp_path, progress=False)
    with pytest.raises(ValueError, match=str(tmp_path)):
        fm.resume(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"experiments": {"a": {}}},
        {"experiments": {"a": []}},
        {"experiments": 7},
        {"seeds": "x"},
        {"target": "x"},
    ],
    ids=str,
)
def test_comparisons_that_are_resumed(changes, tmp_path):
    """What `resume` reads is checked before anything is run."""
    claim(tmp_path, MEMBERS, 2, None)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match="must be"):
        fm.resume(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"experiment": []}'])
def test_members(text, tmp_path):
    """One that is damaged is not done; who runs it names it."""
    (tmp_path / "config.json").write_text(text)
    assert not is_done(tmp_path, TINY)
    with pytest.raises(FileExistsError, match="one of the same run"):
        TINY.run(out=tmp_path, progress=False)


FOUND = Update(0.5, [0.1], {"lr": 0.1}, [], 1.0, 1.0, "", 3, 9, 0.1)
PLAN = {"kind": "tuning", "version": "0"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"value": "x"}', None])
def test_updates(text, tmp_path, capsys):
    """The updates before a damaged one are kept, the others computed again."""
    for number in range(3):
        Updates(PLAN, tmp_path).add(number, FOUND._replace(cost=number))
    assert [one.cost for one in Updates(PLAN, tmp_path).known] == [0, 1, 2]
    path = tmp_path / "updates" / "00001.json"
    path.unlink() if text is None else path.write_text(text)
    assert [one.cost for one in Updates(PLAN, tmp_path).known] == [0]
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("own", 7, "config must be the config.json of a run"),
        ("own", [7], "config must be the config.json of a run"),
        ("dataset", {"array": [1, 2]}, "dataset must be a name or an object"),
    ],
)
def test_configurations(field, value, message, tmp_path):
    """A value of another type deep inside what is read."""
    stored = folders.config(TINY, "run", seeds=None)
    (stored["experiment"] if field == "dataset" else stored)[field] = value
    (tmp_path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=message):
        repeated(tmp_path / "config.json")


@pytest.mark.thorough
def test_results_without_a_title(tmp_path):
    """A finished folder whose configuration lacks something."""
    TINY.run(out=tmp_path, progress=False, picture=False)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    del stored["title"]
    path.write_text(json.dumps(stored))
    for call in (lambda: TINY.run(out=tmp_path), lambda: fm.resume(tmp_path)):
        with pytest.raises(ValueError, match=f"{tmp_path} holds no results.*title"):
            call()


def test_a_comparison_without_members_is_named(tmp_path):
    """A table of nothing, which ends in a traceback."""
    (tmp_path / "config.json").write_text('{"kind": "comparison", "members": []}')
    with pytest.raises(ValueError, match="no member that was finished"):
        fm.read(tmp_path)
