"""Named compositions of channels.

The order of composition settles what the NLA/AA paper [anonymous2024bidirectional]
leaves open: a rule inside the error feedback is line 13 of its Algorithm 3
(`ef_reference="output"`: what a rule holds back or adds goes to the residual); the
error feedback inside the rule is `ef_reference="compressed"` (the residual knows
nothing of the rule).

The recipes under `with_codec` also take its options: `codec`, `fraction`, `bits`,
`per_tensor` and `straight_through`.
"""

from typing import Literal

from fedjax_mos.channels.codec_options import with_codec
from fedjax_mos.channels.feedback import difference, error_feedback, extrapolated, plain
from fedjax_mos.channels.identity import identity
from fedjax_mos.channels.rules import (
    Reference,
    accelerated,
    extrapolated_near,
    lazy,
    lazy_on_copy,
)
from fedjax_mos.components import cite
from fedjax_mos.types import Channel, Codec, NonNegative

EfReference = Literal["output", "compressed"]
Downlink = Literal["difference", "literal"]


@cite("stich2018sparsified")
@with_codec(unbiased=True)
def compressed(codec: Codec) -> Channel:
    """A codec without memory, unbiased where it can be."""
    return plain(codec)


@cite("wang2022fedams")
@with_codec()
def with_feedback(codec: Codec) -> Channel:
    """A codec with error feedback: the uplink of FedCAMS."""
    return error_feedback(plain(codec))


@cite("anonymous2024bidirectional")
def nla(*, kappa: NonNegative = 0.5, reference: Reference = "transmitted") -> Channel:
    """Lazy dense messages: the uplink of FedNLAA."""
    return lazy(identity(), kappa, reference)


@cite("anonymous2024bidirectional")
def aa(*, kappa: NonNegative = 0.5) -> Channel:
    """Accelerated dense messages: the uplink of FedAA."""
    return accelerated(identity(), kappa)


@cite("anonymous2024bidirectional")
@with_codec()
def nla_compressed(
    codec: Codec,
    *,
    kappa: NonNegative = 1.5,
    ef_reference: EfReference = "output",
    reference: Reference = "transmitted",
) -> Channel:
    """Lazy compressed messages with error feedback: the uplink of FedNLACA."""
    inner = plain(codec)
    if _rule_inside(ef_reference):
        return error_feedback(lazy(inner, kappa, reference))
    return lazy(error_feedback(inner), kappa, reference)


@cite("anonymous2024bidirectional")
@with_codec()
def aa_compressed(
    codec: Codec, *, kappa: NonNegative = 1.5, ef_reference: EfReference = "output"
) -> Channel:
    """Accelerated compressed messages with error feedback: the uplink of FedACA."""
    inner = plain(codec)
    if _rule_inside(ef_reference):
        return error_feedback(accelerated(inner, kappa))
    return accelerated(error_feedback(inner), kappa)


@cite("anonymous2024bidirectional")
@with_codec()
def nla_down(
    codec: Codec,
    *,
    kappa: NonNegative = 0.002,
    downlink: Downlink = "difference",
    reference: Reference = "transmitted",
) -> Channel:
    """The downlink of FedBNLACA: compressed changes of the model, skipped when small.

    "literal" is the paper's Algorithm 2: error feedback on the model itself, which
    does not converge when the receiver replaces its copy; only it reads `reference`.
    """
    inner = plain(codec)
    if _by_difference(downlink):
        return difference(lazy_on_copy(inner, kappa))
    return error_feedback(lazy(inner, kappa, reference))


@cite("anonymous2024bidirectional")
@with_codec()
def aa_down(
    codec: Codec,
    *,
    kappa: NonNegative = 0.002,
    downlink: Downlink = "difference",
    extrapolate: bool = False,
    only_near: bool = False,
) -> Channel:
    """The downlink of FedBACA: compressed changes of the model, without a rule.

    The paper's rule would add two models; only "literal" has it (and reads `kappa`).
    With `extrapolate` clients start from the copy moved on by its last change, with
    `only_near` only where that is at most kappa times the copy before it.
    """
    inner = plain(codec)
    if _by_difference(downlink):
        channel = difference(inner)
        if extrapolate and only_near:
            return extrapolated_near(channel, kappa)
        return extrapolated(channel) if extrapolate else channel
    return error_feedback(accelerated(inner, kappa))


def _rule_inside(ef_reference: EfReference) -> bool:
    if ef_reference not in ("output", "compressed"):
        raise ValueError(
            f"ef_reference must be 'output' or 'compressed': got {ef_reference!r}"
        )
    return ef_reference == "output"


def _by_difference(downlink: Downlink) -> bool:
    if downlink not in ("difference", "literal"):
        raise ValueError(
            f"downlink must be 'difference' or 'literal': got {downlink!r}"
        )
    return downlink == "difference"
