"""The programs of docs/search.md run as they are printed, one after another."""

import pytest

from tests.docs import printed

PAGE = "docs/search.md"


@pytest.mark.thorough
def test_the_page(tmp_path):
    """A word of `search`, `optuna_study` or `tune` that is gone."""
    pytest.importorskip("optuna", reason="an extra that is not installed")
    short = printed.shortened(
        "\n".join(printed.blocks(PAGE)),
        ("rounds=100", "rounds=4, clients=6, cohort=2, steps=1, model='logistic'"),
        ("random=64", "random=4"),
        ("seeds=3", "seeds=1, progress=False"),
        (".run(seeds=5)", ".run(seeds=2, progress=False)"),
        ('"runs/study", trials=64', f'"{tmp_path}", trials=4, progress=False'),
        ("batch=16", "batch=4"),
        ("range(3)", "range(2)"),
        ("points, width=2", "points, width=2, progress=False"),
        ("segments:10", "segments:2"),
        ('spline:4"}', 'spline:2"}, updates=3, progress=False'),
    )
    names = printed.run(short, PAGE)
    assert len(names["result"].frame) == 8 and len(names["study"].trials) == 4
    tuned = names["tuned"]
    assert len(tuned.hp["lr"]) == 4 and len(tuned.frame) <= 3
    assert tuned.best <= tuned.frame[tuned.objective].iloc[0]
