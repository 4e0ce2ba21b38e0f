"""The command that says what is installed, what is found, and what is wrong."""

import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from fedjax_mos._version import __version__
from fedjax_mos.cli.arguments import all_cores

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "chex", "orbax-checkpoint")
_ACCELERATORS = {  # a file of the driver -> what JAX needs to use it
    "/dev/nvidiactl": "jax[cuda13]",
    "/dev/kfd": "jax[rocm7-local]",
    "/dev/accel0": "jax[tpu]",
    "/dev/vfio/0": "jax[tpu]",
}
_LITTLE = 2**30  # bytes that should be free on the disk of the cache


class Finding(NamedTuple):
    """One line of the report; what to do, where something is wrong."""

    what: str
    says: str
    do: str = ""


def doctor() -> None:
    """Show versions, devices, caches, data and extras; say what is wrong.

    The exit status is 1 if anything should be done.

    Examples:
        fedjax-mos doctor
    """
    all_cores()
    wrong = 0
    for finding in findings():
        print(f"{finding.what + ':':<12} {finding.says}")
        if finding.do:
            wrong += 1
            print(f"{'':<12} -> {finding.do}")
    print(f"{wrong} thing(s) to do" if wrong else "nothing is wrong")
    if wrong:
        raise SystemExit(1)


def findings() -> Iterator[Finding]:
    """The report, line by line."""
    about = f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield Finding("fedjax_mos", about)
    yield Finding("packages", ", ".join(f"{n} {version(n)}" for n in _PACKAGES))
    yield _devices()
    yield _cache()
    yield from _data()
    yield _extras()


def _devices() -> Finding:
    import jax

    from fedjax_mos.machine import cores
    from fedjax_mos.memory import gib, machine_memory

    kinds = [f"{device.platform} ({device.device_kind})" for device in jax.devices()]
    counted = ", ".join(
        f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)
    )
    says = f"{counted}; {cores()} cores, {gib(machine_memory())} of memory"
    unused = [package for file, package in _ACCELERATORS.items() if Path(file).exists()]
    if jax.default_backend() == "cpu" and unused:
        do = f"an accelerator is there and JAX does not use it: pip install {unused[0]}"
        return Finding("devices", says, do)
    return Finding("devices", says)


def _cache() -> Finding:
    import jax

    from fedjax_mos.machine import cache_folder, keep_programs, keeps_programs
    from fedjax_mos.memory import gib

    folder = cache_folder()
    keep_programs()
    if not keeps_programs():
        do = "make it writable, or set XDG_CACHE_HOME to a folder that is"
        return Finding("cache", f"{folder} is not used: nothing is kept", do)
    # JAX_COMPILATION_CACHE_DIR moves programs away from the rest.
    programs = Path(jax.config.values["jax_compilation_cache_dir"] or folder)
    places = [folder, *([] if programs.is_relative_to(folder) else [programs])]
    size = sum(p.stat().st_size for at in places for p in at.rglob("*") if p.is_file())
    there = next(
        path for path in (programs, *programs.absolute().parents) if path.exists()
    )
    free = shutil.disk_usage(there).free
    says = (
        f"{' and '.join(map(str, places))}, {gib(size)} (programs and data; may be "
        f"deleted), {gib(free)} free"
    )
    do = "free some space, or set XDG_CACHE_HOME" if free < _LITTLE else ""
    return Finding("cache", says, do)


def _data() -> Iterator[Finding]:
    from fedjax_mos.data.sources.locate import locate
    from fedjax_mos.data.sources.table import SOURCES

    always, found, absent = [], [], []
    for name, source in SOURCES.items():
        if source.stored is None:
            always.append(name)
            continue
        try:
            found.append(f"{name} in {locate(name, source.stored.layout)}")
        except FileNotFoundError:
            absent.append(name)
    yield Finding("data", ", ".join([*always, *found]))
    if absent:
        yield Finding("not here", f"{', '.join(absent)} (fedjax-mos data get NAME)")


def _extras() -> Finding:
    """What `pip install '.[EXTRA]'` would bring, if anything is missing."""
    lines = requires("fedjax_mos") or []
    missing: dict[str, list[str]] = {}
    for line in lines:
        name, _, marker = line.partition(";")
        if "extra ==" not in marker:
            continue
        extra = marker.split("extra ==")[1].strip(" \"')")
        package = name.strip().split(">")[0].split("=")[0].split("[")[0]
        missing.setdefault(extra, [])
        try:
            version(package)
        except PackageNotFoundError:
            missing[extra].append(package)
    there = [extra for extra, packages in missing.items() if not packages]
    others = [extra for extra, packages in missing.items() if packages]
    says = f"installed: {', '.join(there) or 'none'}"
    if others:
        says += f"; pip install '.[EXTRA]' in the clone for {', '.join(others)}"
    return Finding("extras", says)
