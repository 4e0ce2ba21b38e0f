"""An experiment's model and loss, fitted to its data."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.client.losses import Apply, PerExample
from fedjax_mos.lab import catalog
from fedjax_mos.lab.population import Population
from fedjax_mos.models.functions import Model, as_model
from fedjax_mos.target import traced_for
from fedjax_mos.types import Forward, Key, Params, PyTree

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


class Network(NamedTuple):
    """A model on raw examples."""

    init: Callable[[Key], Params]
    apply: Apply
    forward: Forward | None
    shapes: Params  # of the parameters


def loss_of(experiment: "Experiment", people: Population) -> PerExample:
    """The loss of the model's outputs, checked against the labels."""
    if not isinstance(experiment.loss, str):
        return experiment.loss
    loss, y = catalog.LOSSES[experiment.loss], people.train.y
    whole = jnp.issubdtype(y.dtype, jnp.integer) and y.ndim == 1
    if experiment.loss == "cross_entropy" and not whole:
        raise ValueError(
            "loss cross_entropy needs one integer label per example: y has the shape "
            f"{y.shape} and the type {y.dtype}; try squared_error or a loss of your own"
        )
    return loss


def network_of(experiment: "Experiment", people: Population, platform: str) -> Network:
    """The model as it is on a platform, checked against the inputs."""
    part = experiment.parts["model"]
    made = as_model(part.spec.build(people.outputs))
    handed = partial(traced_for, platform, precision=experiment.precision)
    inside = made.forward and handed(made.forward)
    model = Model(handed(made.init), handed(made.apply), inside)
    normalise = people.normalise
    x = people.train.x
    first = jax.eval_shape(lambda x: normalise(jax.tree.map(lambda v: v[:1], x)), x)
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0), first)
        outputs = jax.eval_shape(lambda p, x: model.apply(p, x, None), shapes, first)
    except (AttributeError, TypeError, ValueError) as error:
        sizes = jax.tree.map(lambda v: v.shape[1:], first)
        raise ValueError(
            f"model {part.name} does not fit inputs of shape {sizes}: {error}"
        ) from error
    if not hasattr(outputs, "shape"):
        raise ValueError(f"model {part.name} must return one array: got {outputs}")

    def apply(params: Params, x: PyTree, key: Key | None) -> jax.Array:
        return model.apply(params, normalise(x), key)

    def forward(
        params: Params, h: PyTree, start: int, key: Key | None
    ) -> tuple[jax.Array, ...]:
        assert model.forward is not None
        return model.forward(params, h if start else normalise(h), start, key)

    def init(key: Key) -> Params:
        return model.init(key, jax.tree.map(jnp.zeros_like, first))

    return Network(init, apply, forward if model.forward else None, shapes)
