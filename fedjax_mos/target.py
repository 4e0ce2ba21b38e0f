"""The platform that programs are traced for, and how exactly they multiply.

Whoever puts an experiment together decides both once and hands them down: a program for
a TPU can then be traced, exported and compiled where there is none. JAX has both as
contexts, which are part of its own key of what was traced before.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax

GPUS = ("gpu", "cuda", "rocm")
DEFAULT = "default"  # precision: as JAX was told, or else as the platform likes best
_platform = jax.make_user_context(None)


def traced_for(
    platform: str, function: Callable[..., Any], precision: str = DEFAULT
) -> Callable[..., Any]:
    """`function` as it is on a platform, its products of this precision.

    Factors of products of float32 are rounded to bfloat16 on a TPU and to
    TensorFloat-32 on recent GPUs by default; never on a CPU.
    """

    @functools.wraps(function)
    def traced(*args: Any, **options: Any) -> Any:
        own = precision == DEFAULT
        products = nullcontext() if own else jax.default_matmul_precision(precision)
        with _platform(platform), products:
            return function(*args, **options)

    return traced


def platform() -> str:
    """What is being traced is for this platform: the process's, if none was given.

    >>> traced_for("tpu", platform)(), platform() == jax.default_backend()
    ('tpu', True)
    """
    return _platform.value or jax.default_backend()


def products() -> str | None:
    """The precision of what is being traced, as `jax.lax` takes it."""
    return jax.config.values["jax_default_matmul_precision"]
