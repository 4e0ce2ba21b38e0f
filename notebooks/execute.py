"""Run notebooks and store them with outputs: python notebooks/execute.py [NAME ...]

NAME.py is the source, in cells (jupytext's percent format), NAME.ipynb what it shows.
Pictures are small, and what tells of the machine is left out.
"""

import base64
import io
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).parent
# For this run only: it is not stored.
SMALL = (
    "%matplotlib inline\n"
    "%config InlineBackend.figure_formats = ['png']\n"
    "%config InlineBackend.print_figure_kwargs = {'bbox_inches': 'tight', 'dpi': 72}"
)


def source(path: Path) -> nbformat.NotebookNode:
    """The notebook that a text makes, without outputs."""
    notebook = jupytext.read(path)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel}
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    return notebook


def small(picture: str) -> str:
    """A picture with 256 colours, half its size."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    out = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def executed(path: Path) -> nbformat.NotebookNode:
    """The same with outputs: figures as pictures, no warnings, no times."""
    notebook = source(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SMALL))
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, resources=resources).execute()
    del notebook.cells[0]
    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.metadata, cell.execution_count = {}, number + 1
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
        for output in cell.outputs:
            output.pop("execution_count", None)
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = small(output.data["image/png"])
                output.metadata = {}
            if output.output_type == "execute_result":
                output.execution_count = number + 1
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(p.stem for p in HERE.glob("*.py")):
        if name == Path(__file__).stem:
            continue
        began = time.perf_counter()
        nbformat.write(executed(HERE / f"{name}.py"), HERE / f"{name}.ipynb")
        size = (HERE / f"{name}.ipynb").stat().st_size
        print(f"{name}: {time.perf_counter() - began:.0f} s, {size / 1000:.0f} kB")
