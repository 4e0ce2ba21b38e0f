"""The float hyperparameters of a simulation: defaults, replacements, decay by round."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import TypeAliasType

from fedjax_mos.components import Spec, check_hp
from fedjax_mos.types import Hp, Positive

Decay = TypeAliasType("Decay", Callable[[Hp, jax.Array], Hp])


def with_hp(
    specs: Mapping[str, Spec], changes: Mapping[str, Any] | None, dtype: jnp.dtype
) -> Hp:
    """The defaults of `specs` with nested `changes`, checked, as arrays of `dtype`."""

    def merge(old: Mapping[str, Any], new: Mapping[str, Any], where: str) -> Hp:
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

    hp = merge({kind: spec.hp for kind, spec in specs.items()}, changes or {}, "")
    for kind, spec in specs.items():
        check_hp(spec, hp[kind], kind)
    return jax.tree.map(partial(_as_leaf, dtype), hp)


def _as_leaf(dtype: jnp.dtype, value: Any) -> jax.Array:
    """Numbers in the parameters' type; arrays of integers stay what they are."""
    whole = jnp.ndim(value) and not jnp.issubdtype(jnp.result_type(value), jnp.floating)
    return jnp.asarray(value) if whole else jnp.asarray(value, dtype)


def decaying(*, round_decay: Positive | None = None) -> Decay:
    """The local step size of round t is lr * round_decay**t; None: it stays."""

    def decayed(hp: Hp, round: jax.Array) -> Hp:
        if round_decay is None:
            return hp
        own = hp["algorithm"]
        if "lr" not in own:
            raise ValueError(
                "round_decay needs an algorithm with a step size called lr: this one "
                f"has {', '.join(own) or 'no numbers'}"
            )
        return hp | {"algorithm": own | {"lr": own["lr"] * round_decay**round}}

    return decayed
