"""A model as plain functions, whatever library it was written with."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
from typing_extensions import TypeAliasType

from fedjax_mos.models.staged import Staged, apply, forward, init
from fedjax_mos.types import Forward, Key, Params, PyTree

# x: leaves [B, ...], arrays or their shapes
Init = TypeAliasType("Init", Callable[[Key, PyTree], Params])
# no key: evaluation mode
Apply = TypeAliasType("Apply", Callable[[Params, PyTree, Key | None], jax.Array])


class Model(NamedTuple):
    """What the engine needs of a model."""

    init: Init  #: (key, inputs) -> parameters
    apply: Apply  #: (parameters, inputs, key or None) -> outputs
    forward: Forward | None = None  #: for methods that look inside the model


def as_model(model: nn.Module | Model | tuple[Init, Apply]) -> Model:
    """The functions of a flax.linen module, or of a pair (init, apply).

    >>> from fedjax_mos.models import mlp
    >>> made = as_model(mlp(3))
    >>> params = made.init(jax.random.key(0), jax.numpy.zeros((1, 4)))
    >>> made.apply(params, jax.numpy.zeros((5, 4)), None).shape
    (5, 3)
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, nn.Module):
        inside = partial(forward, model) if isinstance(model, Staged) else None
        return Model(partial(init, model), partial(apply, model), inside)
    if isinstance(model, tuple) and len(model) == 2 and all(map(callable, model)):
        return Model(*model)
    raise ValueError(
        "model must be a flax.linen module, a Model or a pair (init, apply) of "
        f"functions: got {_named(model)}"
    )


def _named(model: object) -> str:
    is_class = isinstance(model, type)
    kind = model if isinstance(model, type) else type(model)
    name = kind.__name__
    if any(base.__module__.startswith("flax.nnx") for base in kind.__mro__):
        what = "class" if is_class else "module"
        drawn = "" if is_class else ", whose parameters are drawn already"
        return (
            f"the flax.nnx {what} {name}{drawn}; give "
            f"fm.models.from_nnx(lambda rngs: {name}(..., rngs=rngs))"
        )
    if is_class:
        return f"the class {name}, not an instance of it: give {name}(...)"
    return repr(model)
