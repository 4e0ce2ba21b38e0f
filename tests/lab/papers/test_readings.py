"""What papers leave open, as cards read it."""

import re
from pathlib import Path

import pytest

from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import card_named

LINKS = ("uplink", "downlink")


def test_readings_of_the_fedmos_release():
    """Targets without dropout only, or a warm-up that is a head start by default."""
    parts = {part.name: part for part in card_named("fedmos-table1").parts}
    for name in ("mnist", "cifar10"):
        made = experiments(parts[name])
        assert made["fedmos-cacs"].sampler == "cacs_discarded"
        assert made["fedmos-cacs-counted"].sampler == "cacs"
        assert made["fedmos-cacs"].options["warm_up"] == 4
        # Runs of these parts are older than the column.
        assert not any(one.dropout_loss for one in made.values())
        release = parts[f"{name}-release"]
        assert all(one.dropout_loss for one in experiments(release).values())
        losses = {c.metric: c.target for c in release.columns}
        assert losses["train_loss"] == losses["train_dropout_loss"]


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_tuned_numbers_are_those_of_their_page(data):
    """Numbers that were tuned again and not written to the card, or mistyped."""
    page = Path(__file__).parents[3] / "benchmarks" / "papers" / "fedmos_numbers.md"
    text = page.read_text().partition(f"## {data}\n")[2].partition("\n## ")[0]
    parts = {part.name: part for part in card_named("fedmos-table1").parts}
    made = experiments(parts[f"{data}-tuned"])
    assert all(one.dropout_loss for one in made.values())
    chosen = dict(re.findall(r"^([\w-]+): \*\*(.*)\*\*$", text, re.M))
    assert len(chosen) == 5
    for method, numbers in chosen.items():
        (member,) = {f"tuned-{method}", f"{data}-{method}"} & set(made)
        for name, value in (pair.split() for pair in numbers.split(", ")):
            assert made[member].options[name] == float(value), member
    assert made["tuned-fedmos-ucs"].options == made["tuned-fedmos-acs"].options


def test_readings_of_nla():
    """A reading that is named and not run: both downlinks, residuals, thresholds."""
    card = card_named("nla-readings")
    assert [part.name for part in card.parts] == [
        "mnist-half", "mnist-all", "fashion-half", "fashion-all"
    ]  # fmt: skip
    made = experiments(card.parts[0])
    ways = {n: {k: e.parts[k].spec.options for k in LINKS} for n, e in made.items()}
    up, down = ({n: way[k] for n, way in ways.items()} for k in LINKS)
    assert up["read-fedaca-sign"]["codec"] == "sign"
    assert up["read-fedaca-rate"]["codec"] == "top_k"
    assert up["read-fednlaca-128"]["fraction"] == 1 / 128
    assert up["read-fednlaca-compressed"]["ef_reference"] == "compressed"
    for name in ("fednlaa", "fednlaca", "fedbnlaca"):
        assert up[f"read-{name}-literal"]["reference"] == "literal"
    whole = down["read-fedbnlaca-literal"]
    assert (whole["downlink"], whole["reference"]) == ("literal", "literal")
    assert down["read-fedbaca-extrapolated"]["extrapolate"]
    near = down["read-fedbaca-near"]
    assert near["extrapolate"] and near["only_near"]
    assert up["read-fednlaa-advice"]["kappa"] < 0.001 < up["read-fednlaa-rate"]["kappa"]
    for name in ("read-fedbnlaca", "read-fedbaca"):
        assert down[f"{name}-down"]["downlink"] == "literal"
        assert down[f"{name}-rate"]["downlink"] == "difference"
        assert down[f"{name}-128"]["fraction"] == up[f"{name}-128"]["fraction"]
        assert down[f"{name}-sign"]["codec"] == up[f"{name}-sign"]["codec"] == "sign"
    rates = {n: e.options["lr"] for n, e in made.items()}
    assert set(rates.values()) == {0.1}
