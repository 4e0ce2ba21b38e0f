"""The options that choose a codec, shared by all recipes that compress."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

from typing_extensions import TypeAliasType

from fedjax_mos.channels import codecs
from fedjax_mos.signatures import merged, options_of
from fedjax_mos.types import Channel, Codec, Fraction, Interval

Bits = TypeAliasType("Bits", Annotated[int, Interval(2, 16)])
CodecName = Literal["top_k", "random_k", "sign", "quantise"]


def codec_of(
    unbiased: bool = False,
    *,
    fraction: Fraction = 1 / 8,
    codec: CodecName = "top_k",
    bits: Bits = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
) -> Codec:
    """A codec by name; `fraction` is for top_k and random_k, `bits` for quantise.

    By default a contraction, which a channel with memory needs. `straight_through`
    gives it the derivative of the identity, for hypergradients.
    """
    tensor = {"per_tensor": per_tensor}
    made = {
        "top_k": lambda: codecs.top_k(fraction, **tensor),
        "random_k": lambda: codecs.random_k(fraction, unbiased=unbiased, **tensor),
        "sign": lambda: codecs.scaled_sign(**tensor),
        "quantise": lambda: codecs.quantise(bits, unbiased=unbiased, **tensor),
    }
    if codec not in made:
        raise ValueError(f"codec must be one of {', '.join(made)}: got {codec!r}")
    return codecs.straight_through(made[codec]()) if straight_through else made[codec]()


def with_codec(
    *, unbiased: bool = False
) -> Callable[[Callable[..., Channel]], Callable[..., Channel]]:
    """A recipe written for a built codec, as one that takes the codec's options.

    `def recipe(codec: Codec, *, own)` becomes `recipe(*, own, codec, fraction, ...)`,
    and its signature says so.
    """

    def decorate(recipe: Callable[..., Channel]) -> Callable[..., Channel]:
        @functools.wraps(recipe)
        def built(**options: Any) -> Channel:
            chosen = {n: options.pop(n) for n in options_of(codec_of) if n in options}
            return recipe(codec_of(unbiased, **chosen), **options)

        # The option `codec`, a name, takes the place of the built codec.
        built.__signature__ = merged(recipe, codec_of)  # type: ignore[attr-defined]
        return built

    return decorate
