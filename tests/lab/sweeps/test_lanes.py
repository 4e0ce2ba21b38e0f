"""Each lane of a sweep is the single run with its seed and numbers.

Meaningful in float64 only, where rounding does not grow to what is looked for:
tests/float64.py runs this file in its own process.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.structure import hp_of

SINGLE = fm.Experiment(
    clients=6, cohort=3, rounds=4, steps=2, batch_size=4, model="logistic"
)
# Method -> a second number to sweep. State: none, the server's, the clients', the
# channels', the sampler's.
OFTEN = {"scaffold": "server_lr"}
ALGORITHMS = OFTEN | {
    "fedavg": "server_lr",
    "fedmos": "storm",
    "fedadam": "b2",
    "feddyn": "dyn",
    "feddc": "dyn",
    "mime": "server_momentum",
    "stem": "storm",
    "fedacg": "server_momentum",
    "fedcm": "mix",
    "fedcams": "fraction",
    "fedaa": "uplink.kappa",
    "lag_ps": "smoothness",
}


@pytest.fixture
def double(monkeypatch):
    """Experiments that compute in float64."""
    build = fm.Experiment.build

    def wide(leaf):
        single = leaf.dtype == jnp.float32
        return leaf.astype(jnp.float64) if single else leaf

    def doubled(self, **options):
        made = build(self, **options)

        def start(key, hp=None):
            state, key = made.start(key, hp)
            return jax.tree.map(wide, state), key

        return made._replace(start=start)

    monkeypatch.setattr(fm.Experiment, "build", doubled)


@pytest.mark.skipif(not jax.config.jax_enable_x64, reason="needs float64")
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(a, marks=() if a in OFTEN else pytest.mark.slow) for a in ALGORITHMS],
)
def test_a_lane_is_a_single_run(algorithm):
    """Runs of a program, or of different pieces, are mixed up or influence another."""
    base = dataclasses.replace(SINGLE, algorithm=algorithm, seed=3)
    second = ALGORITHMS[algorithm]
    points = [{"lr": 0.05, second: 0.4}, {"lr": 0.02, second: 0.7}, {"lr": 0.08}]
    cube = fm.sweep(base, points, seeds=3, width=6, progress=False)  # 5 + 4 lanes
    known = ("configuration", "lr", second, "seed", "seconds", "diverged")
    columns = [name for name in cube.frame if name not in known]
    assert cube.frame.query("round == 4")["train_loss"].nunique() == 9
    single = dataclasses.replace(base, options=points[1], seed=5).build()
    for configuration, seed in ((1, 5), (0, 3), (1, 4), (2, 5)):  # in both pieces
        member = dataclasses.replace(base, options=points[configuration], seed=seed)
        # The first is the experiment as it stands; the others share its program.
        own = configuration == 1
        hp = None if own else hp_of(member, single.sim)
        state, key = single.start(jax.random.key(seed), hp)
        _, history = single.run(state, key, member.rounds, progress=False)
        lane = cube.frame.query(f"configuration == {configuration} and seed == {seed}")
        np.testing.assert_allclose(lane[columns], history[columns], rtol=1e-9)
