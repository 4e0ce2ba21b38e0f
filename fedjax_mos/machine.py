"""CPU devices, and the cache of compiled programs."""

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import jax

# Each device is one core: helpers for its matrix products would fight with those of the
# other devices, and its operations gain nothing from running side by side
# (benchmarks/NOTES.md).
_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false",
    "--xla_cpu_enable_concurrency_optimized_scheduler=false",
    # A device waits for the others; XLA aborts the process after 40 s, which happens
    # where other work keeps a core busy. Ten minutes instead.
    "--xla_cpu_collective_call_terminate_timeout_seconds=600",
)
# XLA ends the process at a flag that it does not know: these are in jaxlib 0.8 to 0.12.
CACHE_SIZE = 2**30  # bytes of compiled programs on disk
_CHECKED = jax.__version_info__ < (0, 13)


def use_all_cores() -> int:
    """Make every core a device of its own; returns how many devices there are.

    Call it before anything else starts JAX; later it changes nothing and says so.
    `backend="auto"` then splits clients and simulations over the cores. Where there is
    an accelerator it does no harm. It goes before XLA's own flag for host devices.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:
        if jax.default_backend() == "cpu" and jax.device_count() < cores():
            print(
                "use_all_cores: JAX has already started with "
                f"{jax.device_count()} device(s) and stays so; call it first",
                file=sys.stderr,
            )
    else:
        for flag in _FLAGS if _CHECKED else ():
            if flag.partition("=")[0] not in flags:
                flags = f"{flags} {flag}".strip()
        os.environ["XLA_FLAGS"] = flags
    return jax.device_count()


def devices_of(platform: str) -> int:
    """How many devices of a platform there are; of one that is elsewhere, one."""
    import jax

    try:
        return len(jax.devices(platform))
    except RuntimeError:
        return 1


def device_memory(platform: str | None = None) -> int | None:
    """Bytes of one of this process's accelerators; None where nobody tells.

    That is where it has none of the `platform`, and of a CPU, whose memory is the
    machine's (`memory.py`).
    """
    first = jax.local_devices()[0]
    if first.platform == "cpu" or platform not in (None, first.platform):
        return None
    return (first.memory_stats() or {}).get("bytes_limit")


def compiler_options(platform: str | None) -> dict[str, int] | None:
    """Options for programs of rounds: on CPU LLVM's first level of optimisation.

    Without a `platform` they are for that of the process.

    It compiles a third faster than the default, and rounds take as long
    (benchmarks/NOTES.md): what counts in them is XLA's own work, not LLVM's.
    """
    told = "xla_backend_optimization_level" in os.environ.get("XLA_FLAGS", "")
    least = jax.config.values["jax_disable_most_optimizations"]
    if told or least or (platform or jax.default_backend()) != "cpu":
        return None
    return {"xla_backend_optimization_level": 1}


def keep_programs() -> None:
    """Let JAX keep compiled programs on disk, unless it was told where or not to.

    All of them, small ones too: a run starts with some dozens. The least recently used
    ones go when they are more than 1 GiB. `JAX_ENABLE_COMPILATION_CACHE=0` switches it
    off, `JAX_COMPILATION_CACHE_DIR` moves it from the user's cache folder; the folder
    may be deleted at any time. Where it cannot be written, that is said once.
    """
    told = jax.config.values["jax_compilation_cache_dir"] is not None
    if told or not jax.config.values["jax_enable_compilation_cache"]:
        return
    folder = cache_folder() / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if writable:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", CACHE_SIZE)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    else:
        jax.config.update("jax_enable_compilation_cache", False)
        print(f"{folder} cannot be written: no program is kept", file=sys.stderr)


def keeps_programs() -> bool:
    """Whether compiled programs outlive the process."""
    return bool(jax.config.values["jax_enable_compilation_cache"])


def cache_folder() -> Path:
    """Where things that can be made again are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "fedjax_mos"
    except RuntimeError:  # a user without a home keeps nothing for the next process
        return Path(_temporary())


@cache
def _temporary() -> str:
    """A folder that only this process has: executables are read from nobody else's."""
    folder = tempfile.mkdtemp(prefix="fedjax_mos-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def cores() -> int:
    """Those this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
