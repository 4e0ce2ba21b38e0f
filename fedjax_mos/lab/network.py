"""An experiment's model and loss, fitted to its data."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from flax.errors import FlaxError

from fedjax_mos.client.losses import Apply, PerExample, cross_entropy
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
    batch: tuple[Any, Any]  # shapes of the outputs for B examples, and of their labels


_B = 97  # examples whose outputs are traced: no usual number of anything else


def loss_of(experiment: "Experiment", people: Population) -> PerExample:
    """The loss of the model's outputs, checked against the labels."""
    if not isinstance(experiment.loss, str):
        return experiment.loss
    loss, y = catalog.LOSSES[experiment.loss], people.train.y
    whole = jnp.issubdtype(y.dtype, jnp.integer) and y.ndim == 1
    if experiment.loss == "cross_entropy" and not whole:
        advice = "try squared_error or a loss of your own"
        if y.ndim == 1 and bool((y == jnp.round(y)).all()):
            advice = (
                f"if they are classes, write them as integers: {int(y[0])}, not {y[0]}"
            )
        raise ValueError(
            "loss cross_entropy needs one integer label per example: y has the shape "
            f"{y.shape} and the type {y.dtype}; {advice}"
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
        many = jax.tree.map(_of_batch, first)
        outputs = jax.eval_shape(lambda p, x: model.apply(p, x, None), shapes, many)
    except (AttributeError, TypeError, ValueError, FlaxError) as error:
        sizes = jax.tree.map(lambda v: v.shape[1:], first)
        raise ValueError(
            f"model {part.name} does not fit inputs of shape {sizes}: {error}"
        ) from error
    if not hasattr(outputs, "shape"):
        raise ValueError(f"model {part.name} must return one array: got {outputs}")
    batch = outputs, _of_batch(people.train.y)

    def apply(params: Params, x: PyTree, key: Key | None) -> jax.Array:
        return model.apply(params, normalise(x), key)

    def forward(
        params: Params, h: PyTree, start: int, key: Key | None
    ) -> tuple[jax.Array, ...]:
        assert model.forward is not None
        return model.forward(params, h if start else normalise(h), start, key)

    def init(key: Key) -> Params:
        return model.init(key, jax.tree.map(jnp.zeros_like, first))

    inner = forward if model.forward else None
    return Network(init, apply, inner, shapes, batch)


def check_values(
    experiment: "Experiment",
    people: Population,
    network: Network,
    loss: PerExample,
    platform: str,
) -> None:
    """Refuse a loss or metric that does not give one value per example.

    And a model with fewer outputs than there are classes: their loss is no number.
    """
    outputs, _ = network.batch
    given = outputs.shape[-1] if outputs.ndim > 1 else 1
    if loss is cross_entropy and given < people.outputs:
        raise ValueError(
            f"model {experiment.parts['model'].name} must give {people.outputs} "
            f"outputs, as labels go up to {people.outputs - 1}: got {given}"
        )
    named = {f"metric {name}": one for name, one in (experiment.metrics or {}).items()}
    for what, value in ({"loss": loss} | named).items():
        try:
            found = jax.eval_shape(traced_for(platform, value), *network.batch)
        except (TypeError, ValueError) as error:
            x = jax.tree.map(lambda leaf: leaf.shape[1:], people.train.x)
            shapes = " and ".join(_shown(part.shape) for part in network.batch)
            raise ValueError(
                f"{what} does not fit outputs and labels of shapes {shapes}, for "
                f"inputs of shape {x}: {error}"
            ) from error
        # A metric may bring weights.
        for part in found if isinstance(found, tuple) else (found,):
            shape = getattr(part, "shape", None)
            if shape != (_B,):
                got = type(part).__name__ if shape is None else f"shape {_shown(shape)}"
                raise ValueError(
                    f"{what} must give one value per example, shape [B]: got {got}"
                )


def _of_batch(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((_B, *leaf.shape[1:]), leaf.dtype)


def _shown(shape: tuple[int, ...]) -> str:
    """A shape for people.

    >>> _shown((_B, 10)), _shown(())
    ('(B, 10)', '()')
    """
    return str(tuple("B" if n == _B else n for n in shape)).replace("'", "")
