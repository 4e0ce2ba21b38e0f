"""What travels: channels between server and clients, with exact bits."""

from fedjax_mos.channels.codecs import (
    quantise,
    random_k,
    scaled_sign,
    straight_through,
    top_k,
)
from fedjax_mos.channels.feedback import difference, error_feedback, extrapolated, plain
from fedjax_mos.channels.identity import dense, identity
from fedjax_mos.channels.rules import accelerated, lag_worker, lazy, lazy_on_copy

__all__ = [
    "accelerated",
    "dense",
    "difference",
    "error_feedback",
    "extrapolated",
    "identity",
    "lag_worker",
    "lazy",
    "lazy_on_copy",
    "plain",
    "quantise",
    "random_k",
    "scaled_sign",
    "straight_through",
    "top_k",
]
