"""One uniform way to set any option of any component: `name=value`."""

import ast
import difflib
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.components import WHY_NOT, Spec, spec
from fedjax_mos.schedule import Schedule
from fedjax_mos.signatures import REQUIRED, Option, arguments_of

if TYPE_CHECKING:
    from fedjax_mos.lab.parts import Parts

Home = tuple[str, tuple[str, ...]]  # kind, and the path of an option in its Spec
# Words of other libraries and papers, for the guess in a message.
_ALSO_CALLED = {
    "learning_rate": "lr",
    "step_size": "lr",
    "eta": "lr",
    "mu": "prox",
    "momentum": "server_momentum",
    "server": "server_optimizer",
    "client": "client_optimizer",
}


class UnknownOptionError(ValueError):
    """No component has an option of this name."""


def parse(settings: Iterable[str], flag: str = "--set") -> dict[str, str]:
    """`["lr=0.1", "partition.alpha=0.3"]` as a dictionary, values still text."""
    out: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{flag} takes name=value: got {setting!r}")
        if name in out:
            raise ValueError(f"{flag} {name} is given twice: {out[name]} and {value}")
        out[name] = value
    return out


def place(options: Mapping[str, Any], parts: "Parts") -> "Parts":
    """`parts` with `options` put into the components that have them."""
    placed = dict(parts)
    homes: dict[Home, str] = {}
    # An optimizer before its own options.
    for name, value in sorted(options.items(), key=lambda item: item[0].count(".")):
        kind, path = where = home(name, placed)
        if where in homes:
            raise ValueError(f"{homes[where]} and {name} are the same option")
        homes[where] = name
        part = placed[kind]
        placed[kind] = part._replace(spec=_with(part.spec, path, name, value))
    return placed


def home(name: str, parts: "Parts") -> Home:
    """(kind, path) that `name` means, or a ValueError that lists what there is.

    An option is called by its bare name where that is unambiguous, else as
    `kind.option` or `component.option`.
    """
    homes = _homes(name, parts)
    if not homes:
        known = [f"{kind}.{'.'.join(path)}" for kind, path in all_options(parts)]
        bare = {whole.rpartition(".")[2]: whole for whole in known}
        asked = name.rpartition(".")[2]
        close = difflib.get_close_matches(_ALSO_CALLED.get(asked, asked), bare, n=1)
        hint = f" (did you mean {bare[close[0]]}?)" if close else ""
        why = WHY_NOT.get(asked, "")
        raise UnknownOptionError(
            f"no option {name!r}{hint}{why}; there are {', '.join(known)}"
        )
    if len(homes) > 1:
        choices = " or ".join(f"{kind}.{'.'.join(path)}" for kind, path in homes)
        raise ValueError(f"option {name!r} is ambiguous: say {choices}")
    return homes[0]


def replaced(
    options: Mapping[str, Any], changes: Mapping[str, Any], parts: "Parts"
) -> dict[str, Any]:
    """`options` with `changes`, by whichever name an option goes in either."""
    changed = {where for name in changes for where in _homes(name, parts)}
    kept = {n: v for n, v in options.items() if changed.isdisjoint(_homes(n, parts))}
    return {**kept, **changes}


def named_by(name: str, others: Iterable[str], parts: "Parts") -> str | None:
    """Which of the `others` is the same option as `name`, if one is."""
    homes = set(_homes(name, parts))
    same = (n for n in others if homes.intersection(_homes(n, parts)))
    return next(same, None)


def accepts(name: str, parts: "Parts") -> bool:
    """Whether some component has the option `name`."""
    return bool(_homes(name, parts))


def all_options(parts: "Parts") -> list[Home]:
    """Every option of every component."""
    return [(kind, path) for kind, part in parts.items() for path in _paths(part.spec)]


def value_at(made: Spec, path: tuple[str, ...]) -> Any:
    """What an option of a component is."""
    first, *rest = path
    value = made.options[first]
    return value_at(value, tuple(rest)) if rest else value


def option_at(made: Spec, path: tuple[str, ...]) -> Option:
    """How an option of a component is declared."""
    first, *rest = path
    if rest:
        return option_at(made.static[first], tuple(rest))
    return arguments_of(made.factory).get(first, Option(first, Any, REQUIRED))


def convert(name: str, value: Any, option: Option) -> Any:
    """`value` as the option wants it; text is read, anything else is left alone."""
    if isinstance(value, list) and not option.numeric:
        return tuple(value)
    if not isinstance(value, str):
        return value
    for choice in option.choices:
        if value == str(choice):
            return choice
    empty = type(None) in option.members and value.lower() == "none"
    if optax.GradientTransformation in option.members and not empty:
        return optimizer(value, f"option {name}")
    for member in option.members:
        read = _read(value, member, option)
        if read is not _UNREADABLE:
            return read
    raise ValueError(f"option {name} must be {option.allowed()}: got {value!r}")


_UNREADABLE = object()
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def _read(text: str, member: Any, option: Option) -> Any:
    """Text as one kind of value, or `_UNREADABLE`."""
    if member in (REQUIRED, Any):  # by the default, or whatever the text looks like
        kind = type(option.default)
        member = kind if kind in (bool, float, tuple) else None
        guesses = (member,) if member else (int, float, str)
        found = (_read(text, guess, option) for guess in guesses)
        return next((v for v in found if v is not _UNREADABLE), _UNREADABLE)
    origin = typing.get_origin(member) or member
    try:
        if member is type(None):
            return None if text.lower() == "none" else _UNREADABLE
        if member is bool:
            return _WORDS[text.lower()]
        if member is float and "," in text:
            return Schedule([float(value) for value in text.split(",")])
        if member in (int, float, str):
            return member(text)
        if isinstance(origin, type) and issubclass(origin, tuple):
            (inner, *_) = typing.get_args(member) or (float,)
            return tuple(inner(item) for item in text.split(","))
    except (KeyError, ValueError):
        return _UNREADABLE
    return _UNREADABLE


def optimizer(text: str, name: str = "an optimizer") -> Spec:
    """An optax transform by its call: `adam(learning_rate=0.01)`.

    >>> optimizer("sgd(learning_rate=0.01, momentum=0.8)").hp
    {'learning_rate': 0.01, 'momentum': 0.8}
    """
    allowed = f"{name} must be a call of optax such as adam(learning_rate=0.1)"
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        assert not call.args and not call.func.id.startswith("_")
        factory = getattr(optax, call.func.id)
        given = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        made = spec(factory, **given)
        jax.eval_shape(_one_step(made.build()))
    # Whatever the text calls in vain: nothing but optax's own functions is called.
    except Exception as error:
        why = f" ({error})" if str(error) else ""
        raise ValueError(f"{allowed}: got {text!r}{why}") from None
    return made


def _one_step(transform: Any) -> Callable[[], Any]:
    """What an optimizer makes of a gradient; fails for all that is none."""
    params = {"w": jnp.zeros(2)}
    return lambda: transform.update(params, transform.init(params), params)


def _paths(made: Spec) -> list[tuple[str, ...]]:
    """The options of a Spec, those of nested ones too."""
    found: list[tuple[str, ...]] = []
    for name, value in made.options.items():
        found.append((name,))
        if isinstance(value, Spec):
            found += [(name, *path) for path in _paths(value)]
    return found


def _homes(name: str, parts: "Parts") -> list[Home]:
    return [
        (kind, path)
        for kind, path in all_options(parts)
        if name in (dotted := ".".join(path), f"{kind}.{dotted}")
        or name == f"{parts[kind].name}.{dotted}"
    ]


def _with(made: Spec, path: tuple[str, ...], name: str, value: Any) -> Spec:
    first, *rest = path
    if rest:
        changed = _with(made.static[first], tuple(rest), name, value)
    else:
        changed = convert(name, value, option_at(made, path))
    try:
        return made.replace(**{first: changed})
    except ValueError as error:
        raise ValueError(f"option {error}") from None
