"""Compiled programs on disk, found again without tracing anything.

JAX's own cache spares the compiler's work, but only after a program has been traced
and lowered, which for a round takes longer than loading it. A program whose *identity*
is known (a text that says all that it was made from) is therefore also kept under a
hash of that identity, of this package's source, of everything about JAX and the machine
that may matter, and of its arguments' shapes. Programs made from a user's own functions
have no identity and are traced in every process.
"""

import contextlib
import hashlib
import os
import pickle
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax

from fedjax_mos.machine import CACHE_SIZE, cache_folder, keeps_programs
from fedjax_mos.processes import several

_DIGEST = hashlib.sha256().digest_size
_LEAST = "jax_persistent_cache_min_compile_time_secs"
_NEVER = 1e9  # seconds that nothing takes to compile


class Program:
    """A jitted function of arrays, compiled or loaded when it is first called."""

    def __init__(self, jitted: Callable, identity: str | None) -> None:
        self.jitted, self.identity = jitted, identity
        self.latest: tuple[tuple, Callable] | None = None  # and JAX's settings then
        self.used, self.lock = False, threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if self.used:
            return self._call(*args)
        with self.lock:  # of several threads one compiles it, the others wait
            out = self._call(*args)
            self.used = True
        return out

    def _call(self, *args: Any) -> Any:
        if self.identity is None or not keeps_programs() or several():
            return self.jitted(*args)
        settings = _settings()
        if self.latest is not None and self.latest[0] == settings:
            # Raised before anything runs, where the arguments have other shapes.
            with contextlib.suppress(TypeError, ValueError):
                return self.latest[1](*args)
        self.latest = settings, self._found(*args)
        return self.latest[1](*args)

    def is_kept(self, *args: Any) -> bool:
        """Whether calling it compiles nothing."""
        return (
            self.identity is not None
            and keeps_programs()
            and not several()  # whose parts of a program are not kept
            and self._path(args).exists()
        )

    def _found(self, *args: Any) -> Callable:
        path = self._path(args)
        program = _load(path)
        if program is None:
            with _tracing:  # side by side, threads would only fight for Python
                lowered = self.jitted.lower(*args)  # type: ignore[attr-defined]
            with _apart_from_jax() as hits:
                program = lowered.compile()
            if not hits:  # what came out of JAX's cache cannot be saved again whole
                _save(path, program)
        return program

    def _path(self, args: tuple) -> Path:
        leaves, tree = jax.tree.flatten(args)
        shapes = [
            (jax.typeof(leaf), getattr(leaf, "sharding", None)) for leaf in leaves
        ]
        text = repr((self.identity, _surroundings(), tree, shapes))
        return folder() / hashlib.sha256(text.encode()).hexdigest()


_tracing, _compiling = threading.Lock(), threading.Lock()
_threads = 0  # that are compiling programs to be kept
_before: list[float] = []  # JAX's setting while there are such threads


@contextlib.contextmanager
def _apart_from_jax() -> Iterator[list[str]]:
    """Let JAX's own cache not take what is compiled; a list of what it gave, if any.

    A program that lies there would be read from there by the next process that
    compiles it anew, and an executable that was read cannot be saved again whole.
    """
    global _threads
    here, hits = threading.get_ident(), []

    def listen(event: str, **_: Any) -> None:
        if event.endswith("/cache_hits") and threading.get_ident() == here:
            hits.append(event)

    jax.monitoring.register_event_listener(listen)
    with _compiling:
        if not _threads:
            _before.append(jax.config.values[_LEAST])
        _threads += 1
        jax.config.update(_LEAST, _NEVER)
    try:
        yield hits
    finally:
        with _compiling:
            _threads -= 1
            if not _threads:
                jax.config.update(_LEAST, _before.pop())
        jax.monitoring.unregister_event_listener(listen)


def folder() -> Path:
    """Where the programs are: beside JAX's own, if it was told where."""
    told = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    return Path(told) / "fedjax_mos" if told else cache_folder() / "programs"


@cache
def _say_once(why: str) -> None:
    print(f"{why}: no program is kept", file=sys.stderr)


def _settings() -> tuple:
    """JAX's configuration, as this thread sees it, but for what is kept where."""
    names = (n for n in jax.config.values if "cache" not in n)
    return tuple(getattr(jax.config, name, None) for name in names)


def _surroundings() -> str:
    """All that a program may depend on besides its identity and its arguments."""
    flags = [os.environ.get(n) for n in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    devices = [
        (d.platform, d.device_kind, d.client.platform_version) for d in jax.devices()
    ]
    return repr((_settings(), flags, devices, _machine(), _sources()))


@cache
def _machine() -> str:
    """The processor: machine code for one may not run on another."""
    about = [platform.machine(), platform.processor(), platform.python_version()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        about += sorted(
            {n for n in lines if n.startswith(("flags", "Features", "model"))}
        )
    return repr(about)


@cache
def _sources() -> str:
    """A hash of this package's files and of the versions that it traces with."""
    import flax
    import jaxlib
    import optax

    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        total.update(str(path).encode() + path.read_bytes())
    versions = [module.__version__ for module in (jax, jaxlib, flax, optax)]
    return repr((total.hexdigest(), versions))


def _load(path: Path) -> Callable | None:
    """The program of a file; None if there is none, or it was damaged."""
    from jax.experimental import serialize_executable

    try:
        content = path.read_bytes()
        digest, rest = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(rest).digest() != digest:
            return None
        stored, ids = pickle.loads(rest)
        devices = [d for d in jax.devices() if d.id in ids]
        payload, inputs, outputs = stored
        program = serialize_executable.deserialize_and_load(
            payload, inputs, outputs, execution_devices=devices
        )
        path.touch()  # the least recently used ones go first
    except Exception:  # whatever is wrong with a file, the program can be made again
        return None
    return program


def _save(path: Path, program: Any) -> None:
    """Keep a program, if it can be kept; whole or not at all."""
    from jax.experimental import serialize_executable

    with contextlib.suppress(Exception), _said():
        used = [s.device_set for s in jax.tree.leaves(program.input_shardings)]
        ids = {device.id for device in set.union(*used)}
        rest = pickle.dumps((serialize_executable.serialize(program), ids))
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(rest).digest() + rest)
        os.replace(name, path)
        _forget()


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Say once that the folder cannot be written; that is no reason to stop."""
    try:
        yield
    except OSError as error:
        _say_once(f"{folder()} cannot be written ({error.strerror})")


def _forget() -> None:
    """Remove the least recently used programs beyond the bound."""
    files = sorted(folder().iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > CACHE_SIZE:
            file.unlink(missing_ok=True)
