"""Named compositions of channels.

The order of composition settles what the NLA/AA paper leaves open: a rule inside the
error feedback is line 13 of its Algorithm 3 (`ef_reference="output"`: what a rule holds
back or adds goes to the residual); the error feedback inside the rule is
`ef_reference="compressed"` (the residual knows nothing of the rule).
"""

from typing import Literal

from fedjax_mos.channels import codecs
from fedjax_mos.channels.feedback import difference, error_feedback, extrapolated, plain
from fedjax_mos.channels.identity import identity
from fedjax_mos.channels.rules import accelerated, lazy, lazy_on_copy
from fedjax_mos.types import Channel, Codec, Scalar

CodecName = Literal["top_k", "random_k", "sign", "quantise"]
EfReference = Literal["output", "compressed"]
Downlink = Literal["difference", "literal"]


def codec_of(
    codec: CodecName,
    fraction: Scalar,
    bits: int,
    per_tensor: bool,
    straight_through: bool = False,
    *,
    unbiased: bool = False,
) -> Codec:
    """A codec by name; `fraction` is for top_k and random_k, `bits` for quantise.

    By default a contraction, which a channel with memory needs. `straight_through`
    gives it the derivative of the identity.
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


def compressed(
    *,
    fraction: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
) -> Channel:
    """A codec without memory, unbiased where it can be."""
    return plain(
        codec_of(codec, fraction, bits, per_tensor, straight_through, unbiased=True)
    )


def with_feedback(
    *,
    fraction: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
) -> Channel:
    """A codec with error feedback: the uplink of FedCAMS."""
    return error_feedback(
        plain(codec_of(codec, fraction, bits, per_tensor, straight_through))
    )


def nla(
    *, kappa: Scalar, reference: Literal["transmitted", "raw_prev"] = "transmitted"
) -> Channel:
    """Lazy dense messages: the uplink of FedNLAA."""
    return lazy(identity(), kappa, reference)


def aa(*, kappa: Scalar) -> Channel:
    """Accelerated dense messages: the uplink of FedAA."""
    return accelerated(identity(), kappa)


def nla_compressed(
    *,
    fraction: Scalar,
    kappa: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
    ef_reference: EfReference = "output",
    reference: Literal["transmitted", "raw_prev"] = "transmitted",
) -> Channel:
    """Lazy compressed messages with error feedback: the uplink of FedNLACA."""
    inner = plain(codec_of(codec, fraction, bits, per_tensor, straight_through))
    if _rule_inside(ef_reference):
        return error_feedback(lazy(inner, kappa, reference))
    return lazy(error_feedback(inner), kappa, reference)


def aa_compressed(
    *,
    fraction: Scalar,
    kappa: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
    ef_reference: EfReference = "output",
) -> Channel:
    """Accelerated compressed messages with error feedback: the uplink of FedACA."""
    inner = plain(codec_of(codec, fraction, bits, per_tensor, straight_through))
    if _rule_inside(ef_reference):
        return error_feedback(accelerated(inner, kappa))
    return accelerated(error_feedback(inner), kappa)


def nla_down(
    *,
    fraction: Scalar,
    kappa: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
    downlink: Downlink = "difference",
) -> Channel:
    """The downlink of FedBNLACA: compressed changes of the model, skipped when small.

    "literal" is the paper's Algorithm 2: error feedback on the model itself, which
    does not converge when the receiver replaces its copy.
    """
    inner = plain(codec_of(codec, fraction, bits, per_tensor, straight_through))
    if _by_difference(downlink):
        return difference(lazy_on_copy(inner, kappa))
    return error_feedback(lazy(inner, kappa))


def aa_down(
    *,
    fraction: Scalar,
    kappa: Scalar,
    codec: CodecName = "top_k",
    bits: int = 4,
    per_tensor: bool = False,
    straight_through: bool = False,
    downlink: Downlink = "difference",
    extrapolate: bool = False,
) -> Channel:
    """The downlink of FedBACA: compressed changes of the model, without a rule.

    The paper's rule would add two models; only "literal" has it (and reads `kappa`).
    With `extrapolate` clients start from the copy moved on by its last change.
    """
    inner = plain(codec_of(codec, fraction, bits, per_tensor, straight_through))
    if _by_difference(downlink):
        channel = difference(inner)
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
