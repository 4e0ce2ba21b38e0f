"""Every notebook runs from top to bottom, as a reader finds it."""

import ast

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.printed import ROOT

pytestmark = pytest.mark.thorough

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_cells(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_stored_clean(path):
    """Outputs of one machine in the repository, or cells that nobody reads."""
    for cell in code_cells(path):
        assert not cell.outputs and cell.execution_count is None
        assert len(cell.source.splitlines()) <= 20, cell.source
    kernel = nbformat.read(path, as_version=4).metadata.kernelspec
    assert kernel.name == "python3"


def imports(source):
    """(module, what it is called) of every import; magics are no Python."""
    plain = "\n".join(x for x in source.splitlines() if not x.startswith(("%", "!")))
    for node in ast.walk(ast.parse(plain)):
        if isinstance(node, ast.Import):
            yield from ((name.name, name.asname) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, name.name) for name in node.names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_imports_the_package_once_and_whole(path):
    """Readers learn the public interface: `fm`, and nothing from inside."""
    found = [
        (module, name)
        for cell in code_cells(path)
        for module, name in imports(cell.source)
        if module.split(".")[0] == "fedjax_mos"
    ]
    assert found == [("fedjax_mos", "fm")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, tmp_path, monkeypatch):
    """A notebook that shows an interface which no longer exists."""
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compile time dominates
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    assert any("image/png" in o.get("data", {}) for o in outputs)
