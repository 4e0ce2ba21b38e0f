"""Several processes, perhaps on several machines, that run one program together.

Every process does the same calls in the same order. What a clock or a signal decides is
asked of all of them; what is read on the host is brought to all; the first one writes.
"""

import io
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding

from fedjax_mos.types import PyTree

# Seconds of silence after which a process is taken for dead: the others end then.
_SILENCE = 20


def start(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Meet the other processes: before anything else starts JAX.

    Arguments are those of `jax.distributed.initialize`; what is not given is found by
    JAX under SLURM, Open MPI, Kubernetes and on TPUs.
    """
    count, own = num_processes, process_id
    if count is not None and own is not None and not 0 <= own < count:
        raise ValueError(f"process_id must lie in [0, {count - 1}]: got {own}")
    # Only CPUs need to be told; NCCL and a TPU's own network are there by default.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            heartbeat_timeout_seconds=_SILENCE,
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"the processes could not meet: {error}") from error


def several() -> bool:
    """Whether there is any other process."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this process is the one that writes, prints and draws."""
    return not several() or jax.process_index() == 0


def of_all(value: int | bool) -> list[int]:
    """What each process says; all must be asking."""
    if not several():
        return [int(value)]
    return multihost_utils.process_allgather(np.int32(value)).tolist()


def from_first(content: bytes) -> bytes:
    """What the first process has: words, or a piece of what would not fit at once."""
    if not several():
        return content
    # Without 64-bit types JAX has no longer numbers.
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    if not length:
        return b""
    part = np.zeros(length, np.uint8)
    if is_first():
        part[:] = np.frombuffer(content, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(part)).tobytes()


class Stream(io.RawIOBase):
    """Bytes that the first process writes and the others read, a piece at a time."""

    def __init__(self) -> None:
        self._rest: bytes | None = b""  # of the last piece; None at the end

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        """Send a piece; an empty one is the end."""
        from_first(bytes(content))
        return len(content)

    def readinto(self, buffer: Any) -> int:
        """The next bytes, none at the end."""
        if self._rest == b"":
            self._rest = from_first(b"") or None
        if self._rest is None:
            return 0
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def on_host(tree: PyTree) -> PyTree:
    """NumPy arrays of everything, also of what lies on other processes' devices."""
    return jax.device_get(jax.tree.map(readable, tree))


def readable(leaf: Any) -> Any:
    """`leaf`, or if parts of it are elsewhere, the whole of it."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return leaf
    if leaf.is_fully_replicated:
        return leaf.addressable_data(0)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = readable(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    return multihost_utils.process_allgather(leaf, tiled=True)


def put(tree: PyTree, sharding: Sharding) -> PyTree:
    """`tree`, which every process has, laid out over the devices of all of them."""
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def one(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array):
            if not leaf.is_fully_addressable:
                return jax.device_put(leaf, sharding)
            if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                data = one(jax.random.key_data(leaf))
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(
            whole.shape, sharding, lambda index: whole[index]
        )

    return jax.tree.map(one, tree)
