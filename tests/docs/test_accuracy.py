"""The page on what metrics mean runs as it is printed, and tells the truth."""

import re

import jax.numpy as jnp
import pytest

from fedjax_mos.lab.client_statistics import statistics
from fedjax_mos.lab.columns import _STORES, meaning
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


ROWS = re.findall(
    r"^\| `([^`]*)`.* \| (.*) \| (.*) \| (.*) \|$",
    (printed.ROOT / PAGE).read_text(),
    re.M,
)


@pytest.mark.parametrize(("column", "model", "data", "average"), ROWS)
def test_the_table_says_what_reports_say(column, model, data, average):
    """A row of the page and the words of `meaning`, for one column."""
    words = meaning(column.replace("...", "loss"))
    assert words.model.startswith(model) and words.data == data
    # The page adds of which mean over examples the training metrics are a case.
    assert average.endswith(words.average.removeprefix("mean "))


def test_every_kind_of_column_has_a_row():
    """None is left for the reader to guess."""
    said = {column for column, *_ in ROWS}
    plain = {"test_accuracy"} | {f"{s}_..." for s in _STORES if s != "test"}
    of_clients = {f"{k}held_out_..._client_mean" for k in ("", "personal_")}
    assert said == plain | of_clients | {"local_loss"}


def test_every_statistic_is_explained():
    """The list of the page is that of the code."""
    text = (printed.ROOT / PAGE).read_text()
    (listed,) = re.findall(r"_client_STATISTIC`: (.*?)\n\n", text, re.DOTALL)
    names = re.findall(r"`(\w+)`", listed)
    assert sorted(names) == sorted(statistics(jnp.ones(3), falls=False))
