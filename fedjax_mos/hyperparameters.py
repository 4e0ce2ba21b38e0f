"""Numbers taken out of components: `spec`, the glossary of names, and range checks."""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import Hp, Spec


class Meaning(NamedTuple):
    """What a hyperparameter is and where it may lie."""

    text: str
    low: float
    high: float
    open_low: bool = False  # the lower end itself is not allowed


# Shared by all components: the same name means the same thing everywhere.
GLOSSARY: dict[str, Meaning] = {
    "lr": Meaning("local step size", 0, math.inf, open_low=True),
    "server_lr": Meaning("server step size", 0, math.inf),
    "prox": Meaning("proximal weight", 0, math.inf),
    "server_momentum": Meaning("server heavy ball", 0, 1),
    "storm": Meaning("STORM mixing; 1 is plain SGD", 0, 1),
    "clip": Meaning("largest global norm of a gradient", 0, math.inf, open_low=True),
    "weight_decay": Meaning("weight decay of a local step", 0, math.inf),
    "epoch_decay": Meaning("factor on lr per local epoch", 0, math.inf, open_low=True),
    "scale": Meaning("factor on lr per parameter tensor", 0, math.inf),
}


def spec(factory: Callable[..., Any], *static: Any, **named: Any) -> Spec:
    """A component whose floats are leaves and whose other arguments are fixed.

    Floats (and trees or arrays of them) can be swept and differentiated; integers,
    strings and functions decide shapes and code and are bound to the factory.

    >>> def shrink(times, *, factor, mode):
    ...     return lambda v: v * factor**times
    >>> spec(shrink, 2, factor=0.5, mode="up").hp
    {'factor': 0.5}
    """
    hp = {name: value for name, value in named.items() if _is_float(value)}
    fixed = {name: value for name, value in named.items() if name not in hp}
    known = inspect.signature(factory).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
    unknown = [name for name in named if name not in known and not open_ended]
    if unknown:
        raise ValueError(
            f"{factory.__name__} has no argument {unknown[0]!r}; "
            f"it takes {', '.join(known)}"
        )
    return Spec(partial(factory, *static, **fixed), hp)


def as_spec(component: Any) -> Spec:
    """`component` itself if it is a Spec, else a Spec that always builds it."""
    if isinstance(component, Spec):
        return component
    return Spec(lambda *tools: component, {})


def check_hp(hp: Mapping[str, Any]) -> None:
    """Raise a ValueError for a concrete number outside its range in the glossary."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(hp):
        if isinstance(leaf, jax.core.Tracer):
            continue
        names = [str(getattr(k, "key", k)) for k in path]
        values = np.asarray(leaf)
        if np.isnan(values).any():
            raise ValueError(f"{'.'.join(names)} must be a number: got {values}")
        for meaning in (GLOSSARY[name] for name in names if name in GLOSSARY):
            below = values <= meaning.low if meaning.open_low else values < meaning.low
            if below.any() or (values > meaning.high).any():
                end = "(" if meaning.open_low else "["
                raise ValueError(
                    f"{'.'.join(names)} must lie in "
                    f"{end}{meaning.low:g}, {meaning.high:g}]: got {values}"
                )


def with_hp(defaults: Hp, changes: Mapping[str, Any] | None, dtype: jnp.dtype) -> Hp:
    """`defaults` with nested `changes`, checked, as arrays of `dtype`."""

    def merge(old: dict, new: Mapping, where: str) -> dict:
        unknown = [name for name in new if name not in old]
        if unknown:
            raise ValueError(
                f"no hyperparameter {where}{unknown[0]}; "
                f"{where or 'hp'} has {', '.join(old) or 'none'}"
            )
        return {
            name: merge(value, new[name], f"{where}{name}.")
            if name in new and isinstance(value, dict) and isinstance(new[name], dict)
            else new.get(name, value)
            for name, value in old.items()
        }

    merged = merge(defaults, changes or {}, "")
    check_hp(merged)
    return jax.tree.map(lambda value: jnp.asarray(value, dtype), merged)


def per_round(hp: Hp, round: jax.Array) -> Hp:
    """The default schedule: a leaf [T] holds one value per round; the last stays."""
    return jax.tree.map(
        lambda leaf: leaf[jnp.minimum(round, len(leaf) - 1)] if leaf.ndim else leaf, hp
    )


def _is_float(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(
        isinstance(leaf, float | np.ndarray | np.floating | jax.Array)
        and jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        for leaf in leaves
    )
