"""The page on what metrics mean runs as it is printed, and tells the truth."""

import re

import jax.numpy as jnp
import pytest

from fedjax_mos.lab.client_statistics import statistics
from fedjax_mos.lab.columns import meaning
from tests.docs import printed

pytestmark = pytest.mark.thorough

PAGE = "docs/accuracy.md"
CLIENTS, OWN = printed.blocks(PAGE)


@pytest.mark.thorough
def test_clients_are_measured(capsys):
    """The first program shows statistics over clients, cohorts and a picture."""
    short = printed.shortened(
        CLIENTS,
        ("rounds=30", "rounds=2"),
        (".run(seeds=2)", ".run(seeds=2, progress=False)"),
    )
    names = printed.run(short, PAGE)
    assert "worst_decile" in capsys.readouterr().out
    assert names["figure"].axes and len(names["result"].clients) == 200


def test_own_metrics(capsys):
    """The second one has a top-3 accuracy and one per class."""
    short = printed.shortened(
        OWN, ("rounds=5", "rounds=2"), (".run()", ".run(progress=False)")
    )
    frame = printed.run(short, PAGE)["result"].frame
    last = frame.iloc[-1]
    assert last["test_accuracy"] <= last["test_top3"] <= 1
    assert "test_top3" in capsys.readouterr().out


@pytest.mark.parametrize("column", ["test_accuracy", "held_out_loss", "local_loss"])
def test_columns_are_named_on_the_page(column):
    """What `meaning` knows, the page explains."""
    text = (printed.ROOT / PAGE).read_text()
    store = re.match(r"(held_out|[a-z]+)_", column)[1]
    assert f"`{store}_" in text
    assert " of " in str(meaning(column))


def test_every_statistic_is_explained():
    """None is left for the reader to guess."""
    text = (printed.ROOT / PAGE).read_text()
    for name in statistics(jnp.ones(3), falls=False):
        assert f"`{name}`" in text
