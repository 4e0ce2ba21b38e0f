"""How many gradients a method computes, read off the traced program of one client.

The loss of a toy client carries a marker operation; it is counted in the program with
the lengths of the loops around it, for two numbers of local steps.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos import models
from fedjax_mos.client.losses import mean_loss
from fedjax_mos.client.plans import with_replacement
from fedjax_mos.client.tools import local_work
from fedjax_mos.components import Spec
from fedjax_mos.data.store import federate
from fedjax_mos.engine.rehearsal import rehearsal
from fedjax_mos.lab.simulation import DEFAULT_STEPS
from fedjax_mos.schedule import at_start
from fedjax_mos.types import FederatedData, Key, LocalWork, Params, PyTree

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

_FEATURES, _CLASSES, _BATCH, _LARGEST = 5, 3, 4, 9
_MARKER = "erf_inv"  # an operation that nothing else here uses


class Gradients(NamedTuple):
    """A client's gradients in a round of K steps: per_step x K + more, full ones."""

    per_step: int
    more: int
    full: int  # over all of the client's examples


def toy_client(steps: int) -> tuple[LocalWork, Params, FederatedData]:
    """The tools of a client with a marked loss, parameters and the client's data."""
    model = models.mlp(_CLASSES, hidden=(4,))
    params = models.init(model, jax.random.key(0), jnp.zeros((1, _FEATURES)))

    def forward(
        params: Params, h: PyTree, start: int, key: Key | None
    ) -> tuple[jax.Array, ...]:
        if key is not None:  # training, not a teacher
            h = h + jax.lax.erf_inv(jnp.zeros(h.shape[0])).sum()
        return models.forward(model, params, h, start, key)

    loss = mean_loss(lambda params, x, key: forward(params, x, 0, key)[-1])
    plan = with_replacement(steps, _BATCH)
    x, y = np.zeros((_LARGEST, _FEATURES), "float32"), np.zeros(_LARGEST, int)
    return local_work(loss, plan, forward), params, federate(x, y)


def gradients(algorithm: Spec) -> Gradients:
    """What one client of an algorithm computes in one round."""
    counts = []
    for steps in (3, 5):
        local, params, data = toy_client(steps)
        algo, key = algorithm.build(local, **at_start(algorithm.hp)), jax.random.key(0)
        args = (*algo.init(params, key), data, key)
        counts.append(
            _marks(jax.make_jaxpr(rehearsal(algo, algorithm.name))(*args).jaxpr)
        )
    per_step = (counts[1].get(_BATCH, 0) - counts[0].get(_BATCH, 0)) // 2
    more = counts[0].get(_BATCH, 0) - 3 * per_step
    return Gradients(per_step, more, counts[0].get(_LARGEST, 0))


def examples_per_round(experiment: "Experiment") -> float:
    """Gradients of single examples that a round computes, over all its clients.

    Of clients that differ in size the mean counts, whichever are drawn.
    """
    made = experiment.build()
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    _, info = jax.eval_shape(made.sim.step, made.data, state, key)
    size, batch = float(np.mean(made.data.size)), experiment.batch_size
    each = gradients(experiment.parts["algorithm"].spec)
    if experiment.epochs is None:
        seen: float = (experiment.steps or DEFAULT_STEPS) * batch
    else:
        seen = experiment.epochs * size
    own = each.per_step * seen + each.more * batch + each.full * size
    takes_part = info.cohort.ids.shape[0]
    if experiment.parts["sampler"].name == "bernoulli":  # most of whose slots are dead
        takes_part = experiment.cohort
    return takes_part * own


def _marks(jaxpr: Any, times: int = 1) -> dict[int, int]:
    """Batch size -> evaluations of the loss."""
    found: dict[int, int] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == _MARKER:
            size = eqn.outvars[0].aval.shape[-1]
            found[size] = found.get(size, 0) + times
        inside = times * eqn.params["length"] if eqn.primitive.name == "scan" else times
        for value in eqn.params.values():
            for sub in value if isinstance(value, tuple | list) else (value,):
                sub = getattr(sub, "jaxpr", sub)
                if hasattr(sub, "eqns"):
                    for size, count in _marks(sub, inside).items():
                        found[size] = found.get(size, 0) + count
    return found
