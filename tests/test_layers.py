"""Who imports whom, what people can look up, and that methods stay in their folders."""

import ast
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import fedjax_mos as fm
from fedjax_mos.components import name_of
from fedjax_mos.lab import catalog, default_names

PACKAGE = Path(fm.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# A file imports from its own folder and from lower layers; a layer's folders are apart.
LAYERS = (
    ("types", "_version"),
    ("processes",),
    ("tree", "latest", "schedule", "signatures", "machine", "memory", "folder_lock")
    + ("target",),
    ("components", "contents", "programs"),
    ("data", "channels", "models", "backends"),
    ("client",),
    ("objectives", "samplers", "engine"),
    ("algorithms",),
    ("lab",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Folders that are about methods, and may name them.
METHODS = (
    "algorithms",
    "objectives",
    "samplers",
    "channels",
    "models",
    "data",
    "lab/catalog",
    "lab/default_names",
)
# As papers write them; `storm` and others are also names of numbers.
SPELLED = (
    "FedAvg|FedAvgM|FedProx|FedOpt|SlowMo|FedAdagrad|FedAdam|FedYogi|FedAMS|FedCAMS"
    "|SCAFFOLD|FedDyn|FedDC|FedCM|Mime|MimeLite|STEM|STORM|FedGLOMO|FedLOMO|FedMoS"
    "|FedACG|MOON|FedMLB|FedLC|FedNTD|FedDecorr|LAG|UCS|ACS|CACS"
)
LONGEST = 250


def module(path):
    """A file's module below the package, such as `data.quota`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


MODULES = {module(f) for f in FILES}


def imports(path):
    """Our own modules that a file imports, but those for annotations alone."""
    tree = ast.parse(path.read_text())
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [
                n if n.removeprefix("fedjax_mos.") in MODULES else node.module
                for n in inside
            ]
        else:
            continue
        ours = [n for n in names if n.partition(".")[0] == "fedjax_mos"]
        if node not in typing:
            found |= {n.removeprefix("fedjax_mos").lstrip(".") for n in ours}
    return found


def folder(name):
    return name.partition(".")[0]


def below(*names):
    """The files of modules, and those below folders, with these names."""
    return [f for f in FILES if folder(module(f)) in names]


def outside_methods():
    """Files of folders that know no method."""
    apart = tuple(str(PACKAGE / name) + end for name in METHODS for end in ("/", ".py"))
    return [f for f in FILES if not str(f).startswith(apart)]


# ---- layers --------------------------------------------------------------------------


def test_every_folder_has_a_layer():
    """A new folder is given its place, and no place is kept for one that is gone."""
    there = {folder(module(f)) for f in FILES} - {""}
    assert there == set(LEVEL)


@pytest.mark.parametrize("name", LEVEL)
def test_imports_go_down(name):
    """A cycle, or a part that only works together with what is built on it."""
    for path in below(name):
        upward = {
            other
            for other in imports(path)
            if folder(other) != name and LEVEL.get(folder(other), 99) >= LEVEL[name]
        }
        assert not upward, f"{module(path)} imports {upward}"


def test_imports_are_seen():
    """The reader of imports finds those of known files, else nothing is guarded."""
    assert {"tree", "data.store", "types"} <= imports(PACKAGE / "engine/round.py")
    assert "lab.result" in imports(PACKAGE / "lab/folders.py")  # inside a function
    assert "lab.experiment" not in imports(PACKAGE / "lab/assemble.py")  # annotations


def test_engine_knows_no_component():
    """A round, backend or run that works for one method only."""
    above = {"algorithms", "samplers", "objectives", "models", "client", "lab", "cli"}
    for path in below("engine", "backends"):
        assert not above & {folder(n) for n in imports(path)}, path


def test_engine_knows_no_channel_but_the_identity():
    """A round that treats some compressor or rule apart."""
    for path in below("engine", "backends"):
        channels = {n for n in imports(path) if folder(n) == "channels"}
        assert channels <= {"channels.identity"}, path


def test_algorithms_know_no_engine():
    """A method that only works on one backend, or with one sampler or channel."""
    engine = {"engine", "backends", "samplers", "channels", "data", "machine"}
    for path in below("algorithms", "objectives"):
        assert not engine & {folder(n) for n in imports(path)}, path


def test_files_are_short():
    """A file that does more than one thing; a method that is longer than its paper."""
    long = {module(f): len(f.read_text().splitlines()) for f in FILES}
    assert {n: count for n, count in long.items() if count > LONGEST} == {}
    methods = sorted(long[module(f)] for f in below("algorithms"))
    assert methods[len(methods) // 2] <= 110 and methods[-1] <= 160, methods


# ---- names ---------------------------------------------------------------------------


def test_only_the_catalog_names_methods():
    """A special case for one method hidden in a string outside of its folder."""
    found = set()
    for path in outside_methods():
        if path == PACKAGE / "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text in catalog.ALGORITHMS:
                found.add((module(path), text))
    assert not found
    assert default_names.DEFAULT_ALGORITHM in catalog.ALGORITHMS
    assert default_names.DEFAULT_SAMPLER in catalog.SAMPLERS


def test_prose_names_no_method():
    """Code for all methods that is explained, and so written, for one of them."""
    for path in outside_methods():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            named = re.search(rf"\b({SPELLED})\b", line)
            assert not named, f"{path}:{number} names {named and named[0]}"


@pytest.mark.parametrize("name", fm.__all__)
def test_public_name_is_documented(name):
    """A name in __all__ that is gone, or that help() says nothing about."""
    value = getattr(fm, name)
    if name != "__version__":
        doc = inspect.getdoc(value) or ""
        # A NamedTuple's automatic docstring is its signature.
        assert doc and not doc.startswith(f"{name}("), name


@pytest.mark.parametrize("name", fm.__all__)
def test_signatures_are_readable(name):
    """Types spelled out where help() could print their names: 20 lines for two."""
    value = getattr(fm, name)
    inside = value.__dict__.values() if inspect.ismodule(value) else [value]
    for one in filter(inspect.isfunction, inside):
        text = str(inspect.signature(one))
        assert "numpy._typing" not in text and "Interval(" not in text, one
        assert len(text) < 900, f"{one}: {text}"


def test_public_names_are_sorted():
    """Two branches that add a name would conflict, or add it twice."""
    assert list(fm.__all__) == sorted(set(fm.__all__))


def test_no_public_name_hides_a_module():
    """`fm.NAME` is a function or class only where fedjax_mos/NAME is no module."""
    for path in PACKAGE.iterdir():
        name = path.stem
        if name in MODULES and hasattr(fm, name):
            assert isinstance(getattr(fm, name), types.ModuleType), name


@pytest.mark.parametrize(
    "kind", ["algorithms", "backends", "channels", "models", "samplers", "objectives"]
)
def test_folders_say_what_they_have(kind):
    """A component that help() says nothing about, or that is listed twice."""
    inside = getattr(fm, kind)
    assert list(inside.__all__) == sorted(set(inside.__all__))
    for name in inside.__all__:
        assert inspect.getdoc(getattr(inside, name)), f"{kind}.{name}"


@pytest.mark.parametrize(
    "kind", ["algorithms", "samplers", "channels", "partitions", "models"]
)
def test_the_catalog_is_reachable_by_name(kind):
    """Whatever has a name on the command line is `fm.KIND.NAME` in Python."""
    for name, entry in getattr(catalog, kind.upper()).items():
        there = getattr(getattr(fm, kind), name_of(entry.factory), None)
        assert there is entry.factory, f"{kind} {name}"
    for name, loss in catalog.LOSSES.items():
        assert getattr(fm.losses, name) is loss


def test_import_is_light():
    """Seconds of start-up for packages that only some commands need."""
    heavy = {"tensorflow", "tensorflow_datasets", "pandas", "matplotlib", "sklearn"}
    code = "import sys, fedjax_mos; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["losses", "plans", "partitions", "augment", "datasets"]
)
def test_modules_are_there_before_anything_else(name):
    """Names are imported when they are used, also as the first thing of a program."""
    code = f"import fedjax_mos as fm; print(fm.{name}.__name__)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
