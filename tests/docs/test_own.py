"""The programs of own_data.md, own_model.md and tracking.md run as they are printed."""

import dataclasses
import re
import shlex

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from tests.docs import printed

FRAME, NPZ, REGRESSION, TEXT = printed.blocks("docs/own_data.md")
LINEN, FUNCTIONS, NNX, EQUINOX, HALF = printed.blocks("docs/own_model.md")
(TRACKED,) = printed.blocks("docs/tracking.md")


def run(block, *changes):
    """What a block defines, without its progress bar."""
    assert block.count(".run(") == 1
    quiet = block.replace(".run(", ".run(progress=False, ")
    return printed.run(printed.shortened(quiet, *changes), "docs")


def learns(names, column="test_loss", most=0.8):
    """The metric falls to this share of what it was after the first round."""
    frame = names["result"].frame
    assert frame[column].iloc[-1] < most * frame[column].iloc[0]


def commands(page):
    """The command lines that a page prints."""
    text = (printed.ROOT / page).read_text()
    found = "".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    return [shlex.split(line, comments=True)[1:] for line in found.splitlines()]


@pytest.mark.thorough
def test_frames():
    """Whose a row is becomes who has it."""
    short = ("options={", "rounds=6, options={")
    names = run(FRAME, short)
    learns(names)
    owners = names["frame"]["hospital"].nunique()
    assert names["experiment"].build().data.size.shape[0] == owners


def test_npz(tmp_path, monkeypatch):
    """`groups` divides the examples without a further word."""
    monkeypatch.chdir(tmp_path)
    names = run(NPZ, ("cohort=3", "cohort=3, rounds=2, model='logistic'"))
    sizes = np.asarray(names["experiment"].build().data.size)
    assert sorted(sizes) == sorted(np.bincount(names["writer"][:400]))


@pytest.mark.thorough
def test_regression():
    """Own loss and metric in the frame, by their names."""
    names = run(REGRESSION)
    learns(names)
    within = names["result"].frame["test_within_one"]
    assert within.iloc[-1] > 1.2 * within.iloc[0]


@pytest.mark.thorough
def test_text():
    """Far above the most frequent letter."""
    names = run(TEXT, ('options={"lr": 1.0}', 'options={"lr": 1.0}, rounds=40'))
    assert names["result"].frame["test_accuracy"].iloc[-1] > 0.4
    assert names["experiment"].build().data.size.shape[0] == 4


@pytest.mark.slow
def test_shakespeare():
    """The same program on Shakespeare's roles, where they are there."""
    import gzip
    import json

    path = printed.ROOT.parent / "shared" / "data" / "shakespeare_roles.json.gz"
    if not path.exists():
        pytest.skip("shakespeare_roles.json.gz is not there")
    with gzip.open(path) as file:
        roles = json.load(file)["clients"]
    plays = sorted(roles.items(), key=lambda role: -len(role[1]))[:30]
    start, _, rest = TEXT.partition("plays = {")
    text = start + "plays = PLAYS\n" + rest.partition("}\n")[2]
    text = text.replace("PLAYS", repr({n: str(t)[:2000] for n, t in plays}))
    names = run(text)
    assert names["result"].frame["test_accuracy"].iloc[-1] > 0.2


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(LINEN, id="linen", marks=pytest.mark.thorough),
        pytest.param(FUNCTIONS, id="functions", marks=pytest.mark.thorough),
        pytest.param(NNX, id="nnx", marks=pytest.mark.thorough),
        pytest.param(HALF, id="bfloat16", marks=pytest.mark.thorough),
    ],
)
def test_models(block):
    """A model of each library trains."""
    learns(run(block), most=0.9)


@pytest.mark.thorough
def test_equinox():
    """The same, where Equinox is installed."""
    pytest.importorskip("equinox", reason="not installed")
    learns(run(EQUINOX), most=0.9)


@pytest.mark.thorough
def test_nnx_gives_a_trained_module():
    """What `nnx.update` puts together computes what the result does."""
    names = run(NNX)
    x = np.asarray(names["result"].experiment.build().data.x)[:5]
    trained = names["trained"]
    trained.eval()
    made = names["result"].experiment.build()
    np.testing.assert_allclose(
        made.apply(names["result"].params, x, None), names["result"].apply(x)
    )
    leaves = jax.tree.leaves(names["result"].params)
    kernel = trained.first.kernel[...]
    assert any(np.array_equal(kernel, leaf) for leaf in leaves)


@pytest.mark.thorough
def test_bfloat16_costs_half(tmp_path):
    """Messages have the model's type, in every method that keeps something."""
    model = run(HALF)["Net"]()
    plain = fm.Experiment(sampler="ucs", model=model, rounds=2, clients=12, cohort=3)
    for name in ("fedavg", "fedmos", "scaffold", "fedbaca"):
        experiment = dataclasses.replace(plain, algorithm=name)
        result = experiment.run(out=tmp_path / name, progress=False)
        leaves = jax.tree.leaves(result.params)
        assert {leaf.dtype.name for leaf in leaves} == {"bfloat16"}
        assert np.isfinite(result.frame["test_loss"]).all()
        back = fm.read(tmp_path / name)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(back.params)} == {"float32"}
        if name == "fedavg":
            numbers = sum(leaf.size for leaf in leaves)
            assert result.frame["bits_up"].tolist() == [48 * numbers, 96 * numbers]


@pytest.mark.thorough
def test_tracking(tmp_path, monkeypatch, capsys):
    """A function and a file, told while the run is under way."""
    monkeypatch.chdir(tmp_path)
    run(TRACKED, ("rounds=30", "rounds=20, model='logistic'"))
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 20 and told[0] == "1 None" and told[9] != "10 None"
    assert len(pd.read_csv("runs/second/track.csv")) == 20


def patients(path):
    """The file that own_data.md describes."""
    rng = np.random.default_rng(0)
    age, pressure = rng.normal(50, 10, 300), rng.normal(120, 20, 300)
    frame = pd.DataFrame({"client": rng.choice(list("abcdefghijkl"), 300)})
    frame["age"], frame["pressure"] = age, pressure
    frame["label"] = np.where(age + pressure > 170, "ill", "well")
    frame.to_csv(path, index=False)


FEW = ["--rounds", "2", "--cohort", "2", "--steps", "1", "--batch-size", "4"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [*commands("docs/own_data.md"), *commands("docs/tracking.md")],
    ids=lambda words: " ".join(words[:4]),
)
def test_commands(words, tmp_path, monkeypatch):
    """Every command line of the pages."""
    pytest.importorskip("tensorboardX", reason="an extra that is not installed")
    if "wandb" in words:
        pytest.importorskip("wandb", reason="an extra that is not installed")
        monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    patients("patients.csv")
    cli.main([*words, *FEW])
    assert [*tmp_path.glob("runs/*/config.json")]
