"""Numbers taken out of components: `spec`, the glossary of names, and range checks."""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import Hp, Scalar, Spec


class Meaning(NamedTuple):
    """What a hyperparameter is and where it may lie."""

    text: str
    low: float
    high: float
    open_low: bool = False  # the lower end itself is not allowed


# Shared by all components: the same name means the same thing everywhere.
_INF = math.inf
GLOSSARY: dict[str, Meaning] = {
    "lr": Meaning("local step size", 0, _INF, open_low=True),
    "server_lr": Meaning("server step size", 0, _INF),
    "prox": Meaning("proximal weight", 0, _INF),
    "server_momentum": Meaning("server heavy ball or look-ahead", 0, 1),
    "storm": Meaning("STORM mixing; 1 is plain SGD", 0, 1),
    "dyn": Meaning("FedDyn's and FedDC's alpha", 0, _INF),
    "mix": Meaning("share of the fresh direction in a mixture", 0, 1),
    "b1": Meaning("decay of the first moment", 0, 1),
    "b2": Meaning("decay of the second moment", 0, 1),
    "eps": Meaning("floor of an adaptive step", 0, _INF, open_low=True),
    "weight": Meaning("weight of a loss term", 0, _INF),
    "ce_weight": Meaning("weight of a cross-entropy term", 0, _INF),
    "kl_weight": Meaning("weight of a divergence term", 0, _INF),
    "temperature": Meaning("temperature of a loss term", 0, _INF, open_low=True),
    "smoothness": Meaning("Lipschitz constant of the gradients", 0, _INF),
    "fraction": Meaning("share of entries that are sent", 0, 1, open_low=True),
    "kappa": Meaning("threshold of a message rule; 0 is off", 0, _INF),
    "clip": Meaning("largest global norm of a gradient", 0, _INF, open_low=True),
    "weight_decay": Meaning("weight decay of a local step", 0, _INF),
    "epoch_decay": Meaning("factor on lr per local epoch", 0, _INF, open_low=True),
    "round_decay": Meaning("factor on lr per round", 0, _INF, open_low=True),
    "scale": Meaning("factor on lr per parameter tensor", 0, _INF),
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
    # A whole number where the glossary knows a float is meant as one.
    whole = {n: float(v) for n, v in named.items() if n in GLOSSARY and type(v) is int}
    named = named | whole
    hp = {name: value for name, value in named.items() if _is_float(value)}
    fixed = {name: value for name, value in named.items() if name not in hp}
    known = inspect.signature(factory).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
    unknown = [name for name in named if name not in known and not open_ended]
    if unknown:
        raise ValueError(
            f"{getattr(factory, '__name__', factory)} has no argument {unknown[0]!r}; "
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
        where = ".".join(names)
        if not np.isfinite(values).all():
            raise ValueError(f"{where} must be a finite number: got {values}")
        for meaning in (GLOSSARY[name] for name in names if name in GLOSSARY):
            low, high = meaning.low, meaning.high
            below = values <= low if meaning.open_low else values < low
            if below.any() or (values > high).any():
                left = "(" if meaning.open_low else "["
                right = "]" if math.isfinite(high) else ")"
                raise ValueError(
                    f"{where} must lie in {left}{low:g}, {high:g}{right}: got {values}"
                )


def with_hp(defaults: Hp, changes: Mapping[str, Any] | None, dtype: jnp.dtype) -> Hp:
    """`defaults` with nested `changes`, checked, as arrays of `dtype`."""

    def merge(old: dict, new: Mapping, where: str) -> dict:
        unknown = [name for name in new if name not in old]
        if unknown:
            raise ValueError(
                f"no hyperparameter {where}{unknown[0]}; "
                f"{where.rstrip('.') or 'hp'} has {', '.join(old) or 'none'}"
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


def decaying(*, round_decay: Scalar) -> Callable[[Hp, jax.Array], Hp]:
    """A schedule: the local step size of round t is lr * round_decay**t."""

    def schedule(hp: Hp, round: jax.Array) -> Hp:
        now = per_round(hp, round)
        lr = now["algorithm"]["lr"] * round_decay**round
        return now | {"algorithm": now["algorithm"] | {"lr": lr}}

    return schedule


def _is_float(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(
        isinstance(leaf, float | np.ndarray | np.floating | jax.Array)
        and jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        for leaf in leaves
    )
