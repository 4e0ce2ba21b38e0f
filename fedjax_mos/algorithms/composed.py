"""Algorithms made of a base and of parts, each with options of its own.

`fedprox`, say, is `fedopt` whose server_optimizer is made from `server_lr` and whose
objective is made from `prox`. Its signature is put together from theirs, so that no
argument is written twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_mos.components import cite
from fedjax_mos.signatures import merged, options_of
from fedjax_mos.types import Algorithm, LocalWork

MakeAlgorithm = Callable[..., Algorithm]  # (local, *, options)


def composed(
    base: MakeAlgorithm,
    parts: Mapping[str, Callable[..., Any]],
    *,
    name: str,
    doc: str | None,
    cites: tuple[str, ...],
    module: str,
    **defaults: Any,
) -> MakeAlgorithm:
    """`base` with the options that `parts` names made by functions.

    The functions' own options take the place of those that they make. `defaults`
    replaces defaults.
    """
    makers = (base, *parts.values())
    count = Counter(option for make in makers for option in options_of(make))
    twice = [option for option, times in count.items() if times > 1]
    if twice:
        raise ValueError(f"{name}: more than one part has an option {twice[0]!r}")

    def factory(local: LocalWork, **options: Any) -> Algorithm:
        given = signature.bind(local, **options)
        given.apply_defaults()
        left = given.kwargs
        made = {
            part: make(**{option: left.pop(option) for option in options_of(make)})
            for part, make in parts.items()
        }
        return base(local, **left, **made)

    signature = merged(factory, *makers, **defaults)
    shown = [p for p in signature.parameters.values() if p.name not in parts]
    signature = signature.replace(parameters=shown)
    factory.__signature__ = signature  # type: ignore[attr-defined]
    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    factory.__module__ = module
    return cite(*cites)(factory)
