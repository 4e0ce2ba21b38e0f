"""What a factory's signature says: its options, their kinds, ranges and defaults."""

import inspect
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import jax
import numpy as np

from fedjax_mos.types import Interval

Factory = Callable[..., Any]
REQUIRED = inspect.Parameter.empty
_ARRAYS = (jax.Array, np.ndarray, np.generic)
_PLAIN: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    jax.Array: "an array",
    tuple: "a tuple",
}
# By name, so that this file needs no optax.
_NAMED = {
    "GradientTransformation": "an optax transform, "
    "fm.spec(optax.adam, learning_rate=0.1) say"
}


class Option(NamedTuple):
    """One argument of a factory that users may set."""

    name: str
    annotation: Any
    default: Any  # REQUIRED if there is none

    @property
    def members(self) -> tuple[Any, ...]:
        """The alternatives of the annotation, without what `Annotated` adds."""
        return _members(self.annotation)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of its `Literal`s."""
        literals = [m for m in self.members if typing.get_origin(m) is Literal]
        return tuple(value for m in literals for value in typing.get_args(m))

    @property
    def interval(self) -> Interval | None:
        """Where its numbers may lie, if the annotation says so."""
        return _interval(self.annotation)

    @property
    def unannotated(self) -> bool:
        """Whether only its default or its value says of what kind it is."""
        return any(m in (REQUIRED, Any) for m in self.members)

    @property
    def numeric(self) -> bool:
        """Whether numbers that it is given are leaves of the state."""
        if self.unannotated:
            return not isinstance(self.default, bool | str | tuple | list)
        return any(m is float or m in _ARRAYS for m in self.members)

    def allowed(self) -> str:
        """What it may be, for people."""
        names = [repr(v) if isinstance(v, str) else str(v) for v in self.choices]
        for member in self.members:
            if member is type(None):
                names.append("none")
            elif member in (REQUIRED, Any):
                names.append("a value")
            elif typing.get_origin(member) is not Literal:
                origin = typing.get_origin(member) or member
                plain = getattr(origin, "__name__", str(origin))
                names.append(_PLAIN.get(origin, _NAMED.get(plain, plain)))
        return " or ".join(dict.fromkeys(names))

    def check(self, value: Any) -> None:
        """Raise a ValueError for a static value that the annotation does not allow."""
        wanted = any(map(_is_callable, self.members))
        if self.numeric and callable(value) and not wanted:
            raise ValueError(
                f"{self.name} must be a number or a schedule: got a function; "
                "fm.Schedule.of(function, rounds) makes a schedule of it"
            )
        if not any(_fits(member, value) for member in self.members):
            listed = self.numeric and isinstance(value, list | tuple)
            hint = "; one value per round is fm.Schedule(values)" if listed else ""
            raise ValueError(
                f"{self.name} must be {self.allowed()}: got {value!r}{hint}"
            )
        if isinstance(value, int) and not isinstance(value, bool):
            check_range(self.name, np.asarray(value), self.interval)


@cache
def arguments_of(factory: Factory) -> dict[str, Option]:
    """All arguments of a factory that can be given by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        p.name: Option(p.name, p.annotation, p.default)
        for p in inspect.signature(factory, eval_str=True).parameters.values()
        if p.kind in named
    }


@cache
def options_of(factory: Factory) -> dict[str, Option]:
    """The options of a factory: its keyword-only arguments."""
    parameters = inspect.signature(factory).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return {name: arguments_of(factory)[name] for name in names}


def open_ended(factory: Factory) -> bool:
    """Whether a factory takes any keyword, as `**`."""
    parameters = inspect.signature(factory).parameters.values()
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


def merged(function: Factory, *others: Factory, **defaults: Any) -> inspect.Signature:
    """The signature of `function` with the options of `others` in place of its `**`.

    `defaults` replaces defaults.
    """
    own = inspect.signature(function, eval_str=True)
    parameters = {
        n: p for n, p in own.parameters.items() if p.kind is not p.VAR_KEYWORD
    }
    for other in others:
        for name, option in options_of(other).items():
            parameters[name] = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
    changed = [
        p.replace(default=defaults[n]) if n in defaults else p
        for n, p in parameters.items()
    ]
    return own.replace(parameters=changed)


def is_leaf(option: Option, value: Any) -> bool:
    """Whether `value` of this option is a leaf of the state (or a tree of leaves)."""
    if isinstance(value, tuple | list) and all(
        isinstance(v, float | int) for v in value
    ):
        return False  # a tuple of sizes, or somebody who meant a schedule
    counts = option.unannotated and isinstance(option.default, int)
    if counts and isinstance(value, int):  # as in `steps=5`
        return False
    leaves = jax.tree.leaves(value)
    numbers = bool(leaves) and all(
        isinstance(leaf, (float, int, *_ARRAYS)) and not isinstance(leaf, bool)
        for leaf in leaves
    )
    return numbers and option.numeric


def check_number(where: str, value: Any, interval: Interval | None) -> None:
    """Raise a ValueError for a concrete number that is not finite or out of range."""
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, jax.core.Tracer):
            continue
        values = np.asarray(leaf)
        if not np.isfinite(values).all():
            raise ValueError(f"{where} must be a finite number: got {values}")
        check_range(where, values, interval)
        kept = np.finfo(jax.dtypes.canonicalize_dtype(float))
        size = np.abs(values)
        # The end of a schedule that decays may well be 0 in this type.
        lost = values.ndim == 0 and bool(0 < size < kept.tiny)
        if (size > kept.max).any() or lost:
            raise ValueError(
                f"{where} must be 0 or a number that {kept.dtype} can hold, "
                f"{kept.tiny:.3g} to {kept.max:.3g} in size: got {values}"
            )


def check_range(where: str, values: np.ndarray, interval: Interval | None) -> None:
    """Raise a ValueError for numbers outside of an interval."""
    if interval is None:
        return
    low, high, open_low = interval
    below = values <= low if open_low else values < low
    if below.any() or (values > high).any():
        left = "(" if open_low else "["
        right = "]" if math.isfinite(high) else ")"
        raise ValueError(
            f"{where} must lie in {left}{low:.10g}, {high:.10g}{right}: got {values}"
        )


def _plain(annotation: Any) -> Any:
    """What an alias with a name stands for; other annotations as they are."""
    return getattr(annotation, "__value__", annotation)


def _members(annotation: Any) -> tuple[Any, ...]:
    annotation = _plain(annotation)
    if typing.get_origin(annotation) is Annotated:
        return _members(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(m for arg in typing.get_args(annotation) for m in _members(arg))
    return (annotation,)


def _interval(annotation: Any) -> Interval | None:
    annotation = _plain(annotation)
    origin = typing.get_origin(annotation)
    inside = origin in (Annotated, typing.Union, types.UnionType)
    for part in typing.get_args(annotation) if inside else ():
        found = part if isinstance(part, Interval) else _interval(part)
        if found is not None:
            return found
    return None


def _is_callable(member: Any) -> bool:
    return typing.get_origin(member) is typing.get_origin(Factory)


def _fits(member: Any, value: Any) -> bool:
    """Whether a value is of a kind; of kinds that are not plain, any value."""
    if typing.get_origin(member) is Literal:
        return any(
            value == v and type(value) is type(v) for v in typing.get_args(member)
        )
    if member is bool or isinstance(value, bool):
        return isinstance(value, bool) and member in (bool, REQUIRED, Any)
    if member is type(None):
        return value is None
    if member in (int, str):
        return isinstance(value, member)
    if member is float or member in _ARRAYS:
        return False  # numbers and arrays are leaves, which this is not
    if (typing.get_origin(member) or member) is tuple:
        return isinstance(value, tuple | list)
    if inspect.isfunction(value) and isinstance(member, type):
        return member is object  # a factory in place of what it makes
    if isinstance(value, str) and isinstance(member, type):
        return member in (object, REQUIRED, Any)  # likewise a name
    return value is not None
