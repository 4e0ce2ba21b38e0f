"""Every notebook is stored as it runs, and runs from top to bottom."""

import ast
import base64
import re
import sys

import nbformat
import pytest

from tests.docs.printed import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
# Those that take less than about a minute; the others are run with `pytest -m slow`.
SHORT = ("communication", "own_algorithm", "quickstart", "sweep")
sys.path.insert(0, str(FOLDER))

execute = pytest.importorskip("execute", reason="the extra notebooks is not installed")


def stored(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_cells(name):
    return [cell for cell in stored(name).cells if cell.cell_type == "code"]


def test_all_are_there():
    """A text without a notebook, or the other way round."""
    texts = {path.stem for path in FOLDER.glob("*.py")} - {"execute"}
    assert texts == set(NOTEBOOKS) and len(NOTEBOOKS) >= 9


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_is_stored_as_its_text_says(name):
    """Somebody has changed one of the two: run notebooks/execute.py."""
    text, there = execute.source(FOLDER / f"{name}.py"), stored(name)
    assert [(c.cell_type, c.source) for c in there.cells] == [
        (c.cell_type, c.source) for c in text.cells
    ]
    assert there.metadata.kernelspec.name == "python3"
    # A cell fits a screen.
    assert all(len(cell.source.splitlines()) <= 30 for cell in code_cells(name))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_is_stored_with_its_outputs(name):
    """A reader of the repository sees pictures, no errors and nobody's machine."""
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    assert not [o for o in outputs if o.get("name") == "stderr"]
    text = nbformat.writes(stored(name))
    assert not re.findall(r"/(?:home|root|work|tmp|Users|usr)/\S*", text)
    assert len(text) < 150_000
    pictures = [o.data["image/png"] for o in cells[-1].outputs if "data" in o]
    assert base64.b64decode(pictures[-1])[:4] == b"\x89PNG"


def imports(source):
    """(module, what it is called) of every import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((name.name, name.asname) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, name.name) for name in node.names)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_imports_the_package_once_and_whole(name):
    """Readers learn the public interface: `fm`, and nothing from inside."""
    found = [
        (module, called)
        for module, called in imports((FOLDER / f"{name}.py").read_text())
        if module.split(".")[0] == "fedjax_mos"
    ]
    assert found == [("fedjax_mos", "fm")]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.thorough if n in SHORT else pytest.mark.slow)
        for n in NOTEBOOKS
    ],
)
def test_runs(name, monkeypatch):
    """A notebook that shows an interface which no longer exists."""
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compile time dominates
    notebook = execute.executed(FOLDER / f"{name}.py")
    *_, last = [cell.outputs for cell in notebook.cells if cell.get("outputs")]
    assert any("image/png" in output.get("data", {}) for output in last)
