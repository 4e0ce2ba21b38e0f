"""What people import and look up: names, docstrings, options, and who imports whom."""

import ast
import functools
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.engine.hyperparameters import GLOSSARY

PACKAGE = Path(fm.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
TABLES = {
    "algorithm": catalog.ALGORITHMS,
    "sampler": catalog.SAMPLERS,
    "partition": catalog.PARTITIONS,
    "local": {"local": catalog.LOCAL},
}
# Arguments that an experiment itself provides; what remains are options.
PROVIDED = {
    "algorithm": {"local"},
    "sampler": {"cohort", "loss", "params", "order", "lr"},
    "partition": {"labels", "clients", "seed", "groups"},
    "local": {"loss", "plan", "augment", "forward"},
}


def module(path):
    """A file's module below the package, such as `data.quota`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def imports(path):
    """Our own modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {f"fedjax_mos.{module(f)}" for f in FILES}
            names = (inside & modules) or [node.module]
        else:
            continue
        found |= {n.removeprefix("fedjax_mos.") for n in names if "fedjax_mos" in n}
    return found


def files(*names):
    """The files of modules, and those below packages, with these names."""
    return [f for f in FILES if module(f).split(".")[0] in names]


def outside(imported, *allowed):
    """The imports that are neither one of `allowed` nor below one of them."""
    return {
        name
        for name in imported
        if not any(name == a or name.startswith(f"{a}.") for a in allowed)
    }


def functions(factory):
    """The function behind a factory, and those that a partial hands to it."""
    if isinstance(factory, functools.partial):
        given = [f for f in factory.args if inspect.isfunction(f)]
        return [*functions(factory.func), *given]
    return [factory]


def arguments(factory):
    """Names of a factory's arguments; those of a `**numbers` are its functions'."""
    found, open_ended = set(), False
    for function in [factory, *functions(factory)[1:]]:
        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        found |= named if function is factory or open_ended else set()
        open_ended |= len(named) < len(parameters)
    return found


@pytest.mark.parametrize("name", fm.__all__)
def test_public_name_is_documented(name):
    """A name in __all__ that is gone, or that help() says nothing about."""
    value = getattr(fm, name)
    if name != "__version__":
        doc = inspect.getdoc(value) or ""
        # A NamedTuple's automatic docstring is its signature.
        assert doc and not doc.startswith(f"{name}("), name


def test_public_names_are_sorted():
    """Two branches that add a name would conflict, or add it twice."""
    assert list(fm.__all__) == sorted(set(fm.__all__))


@pytest.mark.parametrize("kind", ["algorithm", "sampler"])
def test_factories_cite_their_paper(kind):
    """A method whose origin a reader cannot find."""
    for name, entry in TABLES[kind].items():
        made_of = functions(entry.factory)
        docs = [inspect.getdoc(f) for f in made_of]
        assert all(docs), f"{kind} {name} has no docstring"
        docs += [inspect.getmodule(f).__doc__ or "" for f in made_of]
        found = re.search(r"\b(19|20)\d\d\b", " ".join(docs))
        assert found, f"{kind} {name} cites no year"


@pytest.mark.parametrize("kind", TABLES)
def test_options_are_the_keyword_arguments(kind):
    """An argument that --set cannot reach, or an option that the factory rejects."""
    for name, entry in TABLES[kind].items():
        known = arguments(entry.factory) - PROVIDED[kind]
        assert set(entry.options) == known, f"{kind} {name}"
        for dataset, tuned in entry.tuned.items():
            assert set(tuned) <= known, f"{kind} {name} on {dataset}"
            assert dataset in catalog.DATASETS


def test_model_options_are_arguments():
    """An option of a model that its factory rejects."""
    for name, entry in catalog.MODELS.items():
        known = set(inspect.signature(entry.factory).parameters)
        assert set(entry.options) <= known - {"classes"}, name


def test_references_are_given():
    """A name in `fedjax-mos list` without its source."""
    for kind, entries in catalog.listing().items():
        for entry in entries:
            assert entry["reference"].strip(), f"{kind} {entry['name']}"


def test_habits_name_what_exists():
    """A data set whose default partition or model is gone."""
    for dataset, habit in (catalog.HABITS | {"other": catalog.OTHER}).items():
        assert habit.partition in catalog.PARTITIONS, dataset
        assert habit.model in catalog.MODELS, dataset
        assert 0 < habit.target < 1, dataset
    assert set(catalog.HABITS) == set(catalog.DATASETS)


def test_float_hyperparameters_are_in_the_glossary():
    """A number whose range nobody checks, or one name with two meanings."""
    for name, entry in catalog.ALGORITHMS.items():
        floats = {k for k, v in entry.options.items() if isinstance(v, float)}
        assert floats <= set(GLOSSARY), name
    optional = {k for k, v in catalog.LOCAL.options.items() if v is None}
    assert optional <= set(GLOSSARY)


def test_foundations_import_nothing():
    """A cycle through the types that every file imports."""
    for path in files("types", "tree"):
        assert not outside(imports(path), "types"), path


def test_engine_knows_no_component():
    """A round, backend or run that works for one method only."""
    assert {"types", "tree", "backends"} <= imports(PACKAGE / "round.py")
    allowed = ("types", "tree", "data", "channels.identity", "hyperparameters")
    parts = {"round": ("backends",), "run": ("adapting", "history", "interrupts")}
    for path in files("backends", "run", "round", "adapting", "history", "interrupts"):
        extra = parts.get(module(path), ())
        assert not outside(imports(path), *allowed, *extra), path


def test_algorithms_know_no_engine():
    """A method that only works on one backend."""
    engine = ("round", "backends", "run", "experiment", "catalog")
    for path in files("algorithms"):
        assert not set(engine) & imports(path), path


def test_parts_know_no_method():
    """Data, local work, losses, channels or samplers that depend on a method."""
    above = ("algorithms", "catalog", "experiment", "report", "cli", "round", "run")
    lower = ("data", "plans", "local", "losses", "channels", "samplers", "models")
    for path in files(*lower):
        imported = imports(path)
        assert outside(imported, *above) == imported, path


def test_only_the_catalog_names_methods():
    """A special case for one method hidden in a string below the catalog."""
    for path in FILES:
        upper = path.name in ("__init__.py", "experiment.py", "cli.py")
        if upper or path.parent.name == "catalog":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in catalog.ALGORITHMS, f"{path}:{node.lineno}"


def test_algorithm_files_are_short():
    """A method that no longer reads like its paper."""
    lengths = sorted(len(p.read_text().splitlines()) for p in files("algorithms"))
    assert lengths[len(lengths) // 2] <= 110 and lengths[-1] <= 160, lengths


def test_import_is_light():
    """Seconds of start-up for packages that only some commands need."""
    heavy = {"tensorflow", "tensorflow_datasets", "pandas", "matplotlib", "sklearn"}
    code = "import sys, fedjax_mos; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())
