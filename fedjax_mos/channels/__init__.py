"""What travels: channels between server and clients, with exact bits."""

from fedjax_mos.channels.codec_options import codec_of, with_codec
from fedjax_mos.channels.codecs import (
    quantise,
    random_k,
    scaled_sign,
    straight_through,
    top_k,
)
from fedjax_mos.channels.feedback import difference, error_feedback, extrapolated, plain
from fedjax_mos.channels.identity import dense, identity
from fedjax_mos.channels.recipes import (
    aa,
    aa_compressed,
    aa_down,
    compressed,
    nla,
    nla_compressed,
    nla_down,
    with_feedback,
)
from fedjax_mos.channels.rules import (
    accelerated,
    extrapolated_near,
    lag_worker,
    lazy,
    lazy_on_copy,
)
from fedjax_mos.channels.thresholds import advised_constant, threshold

__all__ = [
    "aa",
    "aa_compressed",
    "aa_down",
    "accelerated",
    "advised_constant",
    "codec_of",
    "compressed",
    "dense",
    "difference",
    "error_feedback",
    "extrapolated",
    "extrapolated_near",
    "identity",
    "lag_worker",
    "lazy",
    "lazy_on_copy",
    "nla",
    "nla_compressed",
    "nla_down",
    "plain",
    "quantise",
    "random_k",
    "scaled_sign",
    "straight_through",
    "threshold",
    "top_k",
    "with_codec",
    "with_feedback",
]
