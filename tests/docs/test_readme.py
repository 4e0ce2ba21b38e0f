"""The README's programs run as they are printed."""

import contextlib
import io

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.docs import printed

README = "README.md"
SWEEP, NOTEBOOK, GRADIENT, OWN = printed.blocks(README)


@pytest.mark.parametrize(
    ("block", "most"), [(NOTEBOOK, 6), (OWN, 29), (GRADIENT, 5), (SWEEP, 8)]
)
def test_every_block_is_short(block, most):
    """The interface is only as good as its shortest example."""
    assert len(printed.lines(block)) <= most


def test_the_notebook_example(capsys):
    """Experiment, curves and citation in five lines."""
    short = printed.shortened(
        NOTEBOOK,
        ('options={"lr": 0.2}', 'options={"lr": 0.2}, rounds=2'),
        (".run(seeds=5)", ".run(seeds=2, progress=False)"),
    )
    names = printed.run(short, README)
    assert len(names["result"].frame) == 4
    assert names["figure"].axes
    assert "@inproceedings{wang2023fedmos" in capsys.readouterr().out


@pytest.fixture(scope="module")
def own():
    """What the block with own components prints and defines, after three rounds."""
    short = OWN.replace("rounds=20", "rounds=3").replace(
        "seeds=2)", "seeds=2, progress=False)"
    )
    assert short.count("rounds=3") == 2 and short.count("progress=False") == 2
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        names = printed.run(short, README)
    return names | {"printed": out.getvalue()}


def test_own_components_are_compared_and_swept(own):
    """Own algorithm, model and data through `compare` and `sweep`, in 29 lines."""
    rows = [line.split()[0] for line in own["printed"].splitlines()[2:4]]
    assert set(rows) == {"signs", "FedAvg"}
    assert "rounds to 80 %" in own["printed"]
    cells = own["cube"].cells()
    assert len(cells) == 4 and {"lr", "server_lr"} <= set(cells)
    assert len(own["cube"].frame) == 4 * 2 * 3
    # Both numbers matter, so both are leaves.
    assert own["cube"].frame["test_loss"].nunique() > 4
    assert own["own"].parts["algorithm"].spec.hp == {"lr": 0.1, "server_lr": 0.01}


def test_own_algorithm(own):
    """An algorithm written by a reader runs in the engine, by its own definition."""
    sim = fm.simulation(
        fm.spec(own["signed_average"], lr=0.1, server_lr=0.01),
        fm.local_work(
            fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
        ),
        fm.spec(fm.samplers.uniform),
        cohort=3,
    )
    data, key = problem.data(), jax.random.key(0)
    before = problem.softmax_params()
    state, _ = jax.jit(sim.step)(data, sim.init(before, data, key), key)
    moved = abs(np.asarray(state.server.params["w"] - before["w"]))
    np.testing.assert_allclose(moved, 0.01, rtol=1e-4)


def test_one_level_below():
    """Own arrays, loss and parameters, as the tutorial prints them, learn something."""
    page = "docs/tutorial.md"
    train, measure = printed.blocks(page)[-2:]
    block = "\n".join(["import fedjax_mos as fm", train, measure])
    history = printed.run(block, page)["history"]
    assert history["local_loss"].iloc[-1] < 0.7 * history["local_loss"].iloc[0]
    measured = history[["train_accuracy", "test_accuracy"]].dropna()
    assert len(measured) == 3 and (measured.iloc[-1] > 0.8).all()


@pytest.mark.thorough
def test_gradient(capsys):
    """The gradient of a run, and a tuned schedule."""
    short = printed.shortened(
        GRADIENT,
        ("rounds=50", "rounds=4, clients=6, cohort=2, steps=1, model='logistic'"),
        ('lr": "segments:10", "s', 'lr": "segments:2", "s'),
        ('segments:10"}', 'segments:2"}'),
        ("seeds=4", "candidates=2, updates=2, progress=False"),
    )
    names = printed.run(short, README)
    assert "server_lr" in capsys.readouterr().out
    assert all(len(names["tuned"].hp[n]) == 4 for n in ("lr", "server_lr"))


def test_sweep():
    """The sweep's example names an argument or a helper that is gone."""
    short = printed.shortened(
        SWEEP,
        ("rounds=100", "rounds=1, model='logistic'"),
        ("seeds=5", "seeds=1, progress=False"),
    )
    assert len(printed.run(short, README)["cube"].frame) == 6
