"""Timing and reporting that every benchmark shares; the standard library alone."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("fedjax_mos", "jax", "jaxlib", "fedjax", "torch", "pfl", "flwr", "numpy")


def seconds(work: Callable[[], Any], repeats: int = 5, warmup: int = 1) -> list[float]:
    """Wall-clock seconds of each call after `warmup` calls; `work` waits for itself."""
    for _ in range(warmup):
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def versions() -> dict[str, str]:
    """What is installed here, as far as it matters."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def report(name: str, times: list[float], **more: Any) -> dict[str, Any]:
    """Print one JSON line: median, extremes, versions and the machine's load."""
    line = {
        "name": name,
        "seconds": statistics.median(times),
        "fastest": min(times),
        "slowest": max(times),
        "repeats": len(times),
        **more,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }
    print(json.dumps(line), flush=True)
    return line


def wait_until_quiet(limit: float = 120, busy: float = 0.15) -> float:
    """Wait (at most `limit` seconds) until other programs use less than `busy` cores.

    Returns what they used last; 0 where the system does not tell.
    """
    start = time.monotonic()
    while True:
        used = _busy_cores(1.5)
        if used < busy or time.monotonic() - start > limit:
            return used


def _busy_cores(interval: float) -> float:
    def spent() -> float:
        try:
            with open("/proc/stat") as stat:
                fields = [int(field) for field in stat.readline().split()[1:9]]
        except OSError:
            return 0.0
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")

    before = spent()
    time.sleep(interval)
    return (spent() - before) / interval
