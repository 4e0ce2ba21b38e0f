"""Components describe themselves: a factory's signature says what can be set.

A factory is an ordinary function. Its positional arguments are handed in by the engine
(the tools); its keyword-only arguments are **options**. The annotation says of what
kind an option is:

    float, Scalar, an array type    a float hyperparameter, a *leaf* of the state
    int, bool, str, Literal, ...    static: it decides shapes and code
    none, or Any                    by the value: numbers are leaves, but for whole ones
                                    where the default is a whole one too (`steps=5`)

`Positive`, `NonNegative`, `Unit` and `Fraction` say besides where a leaf may lie.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax

from fedjax_mos.schedule import check_schedules
from fedjax_mos.signatures import (
    REQUIRED,
    Factory,
    Option,
    arguments_of,
    check_number,
    is_leaf,
    open_ended,
    options_of,
)

F = TypeVar("F", bound=Factory)
# Why a method may lack an option that many have.
WHY_NOT = dict.fromkeys(
    ("client_optimizer", "client_state"),
    ": this method's paper writes its own local step",
) | {"server_optimizer": ": this method's paper writes its own server step"}


@dataclasses.dataclass(frozen=True, eq=False)
class Spec:
    """A component with its numbers taken out: `build(*tools, **hp)` makes it.

    `hp` are the leaves; everything else is bound. An option may itself be a Spec (an
    optimiser, say): its leaves are then nested under the option's name.
    """

    factory: Factory  #: the function that makes it
    static: dict[str, Any]  #: options that decide shapes or code, by name
    hp: dict[str, Any]  #: options that are leaves, by name

    @property
    def name(self) -> str:
        """The factory's."""
        return name_of(self.factory)

    @property
    def options(self) -> dict[str, Any]:
        """Every option with its value."""
        return self.hp | self.static

    def build(self, *tools: Any, **hp: Any) -> Any:
        """The component, with some leaves replaced; they may be traced."""
        made = self.hp | hp | self.static
        for name, inner in self.static.items():
            if isinstance(inner, Spec):
                made[name] = inner.build(**hp.get(name, {}))
        return self.factory(*tools, **made)

    def replace(self, **options: Any) -> "Spec":
        """The same factory with some options changed."""
        return spec(self.factory, **self.options | options)


def spec(factory: Factory, /, *unnamed: Any, **options: Any) -> Spec:
    """A component whose floats are leaves and whose other options are fixed.

    Options that are not given keep the defaults of the factory's signature. Leaves
    (numbers, arrays, schedules) can be swept and differentiated; integers, strings and
    functions decide shapes and code.

    >>> def shrink(tools, *, factor: float = 0.5, times: int = 2, mode="up"):
    ...     return lambda v: v * factor**times
    >>> made = spec(shrink, times=3)
    >>> made.hp, made.static
    ({'factor': 0.5}, {'times': 3, 'mode': 'up'})
    """
    known, every = options_of(factory), arguments_of(factory)
    if unnamed:
        like = f"fm.spec({name_of(factory)}, {next(iter(known), 'option')}=...)"
        raise ValueError(f"options are given by name, {like}: got {unnamed[0]!r}")
    for name in options:
        if name not in every and not open_ended(factory):
            raise ValueError(
                f"{name_of(factory)} has no option {name!r}{WHY_NOT.get(name, '')}; it "
                f"has {', '.join(known) or 'none'}"
            )
    if any(name in every and name not in known for name in options):
        known = every  # nothing is handed in: an optimizer's factory, say
    static: dict[str, Any] = {}
    hp: dict[str, Any] = {}
    for name in dict.fromkeys([*known, *options]):
        option = every.get(name, Option(name, Any, REQUIRED))
        value = options.get(name, option.default)
        if value is REQUIRED:
            raise ValueError(f"{name_of(factory)} needs a value for {name}")
        if isinstance(value, Spec):
            static[name], hp[name] = value, value.hp
        elif is_leaf(option, value):
            check_schedules(name, value)
            # 1 means 1.0
            hp[name] = jax.tree.map(
                lambda v: float(v) if isinstance(v, int) else v, value
            )
            check_number(name, value, option.interval)
        else:
            option.check(value)
            static[name] = value
    return Spec(factory, static, hp)


def constant(component: Any) -> Spec:
    """A Spec that always builds `component`, which thereby has no options."""
    return Spec(functools.partial(_given, component), {}, {})


def _given(component: Any, *tools: Any) -> Any:
    return component


def bound(made: Spec, *tools: Any) -> Spec:
    """A Spec that has its tools already."""
    return Spec(functools.partial(made.factory, *tools), made.static, made.hp)


def then(made: Spec, change: Callable[[Any], Any]) -> Spec:
    """A Spec that builds `change` of what `made` builds, with the same options."""

    @functools.wraps(_inside(made.factory))
    def factory(*tools: Any, **options: Any) -> Any:
        return change(made.factory(*tools, **options))

    signature = inspect.signature(made.factory, eval_str=True)
    factory.__signature__ = signature  # type: ignore[attr-defined]
    return Spec(factory, made.static, made.hp)


def as_spec(component: Any) -> Spec:
    """`component` itself if it is a Spec, else one that always builds it."""
    return component if isinstance(component, Spec) else constant(component)


def check_hp(made: Spec, hp: Mapping[str, Any], where: str) -> None:
    """Raise a ValueError for a leaf of a component that is out of its range."""
    known = arguments_of(made.factory)
    for name, value in hp.items():
        inner = made.static.get(name)
        if isinstance(inner, Spec):
            check_hp(inner, value, f"{where}.{name}")
        else:
            interval = known[name].interval if name in known else None
            check_number(f"{where}.{name}", value, interval)


def cite(*keys: str) -> Callable[[F], F]:
    """Say which entries of references.bib the users of a factory should cite."""

    def mark(factory: F) -> F:
        factory.cites = keys  # type: ignore[attr-defined]
        return factory

    return mark


def cited(factory: Factory) -> tuple[str, ...]:
    """Keys of references.bib; of a partial, those of the function inside."""
    return getattr(_inside(factory), "cites", ())


def name_of(factory: Factory) -> str:
    """What people call a factory."""
    return getattr(_inside(factory), "__name__", repr(factory))


def description(factory: Factory) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(_inside(factory)) or "\n").splitlines()[0]


def _inside(factory: Factory) -> Factory:
    return getattr(factory, "func", factory)
