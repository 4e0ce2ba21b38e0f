"""The documentation site: `sphinx-build -W docs docs/_build`, offline."""

import os
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from fedjax_mos._version import __version__  # noqa: E402

project = "fedjax_mos"
author = "the fedjax_mos authors"
release = version = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "public_api"]
html_theme = "furo"
html_title = f"fedjax_mos {release}"
exclude_patterns = ["_build", "_ext", "skeletons"]
# Stored outputs are shown; the tests execute notebooks.
nb_execution_mode = "off"
myst_heading_anchors = 3
default_role = "code"  # as in the Markdown of the other pages
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80


def copy_notebooks(app, config):
    """Sphinx reads pages below its own folder only."""
    there = HERE / "notebooks"
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir()
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        text = path.read_text().replace("](../docs/", "](../")
        (there / path.name).write_text(text)


def links_that_leave(text, repository):
    """Pages are also read in the repository, where `../FILE` reaches its files.

    On the site such a link is the file's name, or leads to the `repository`'s files.
    """
    link = rf"[\1]({repository}/\2)" if repository else r"`\2`"
    return re.sub(r"\[([^][]+)\]\(\.\./([^)\s]+)\)", link, text)


def name_files(app, docname, source):
    """Notebooks are no Markdown, and their links stay on the site."""
    if not docname.startswith("notebooks/"):
        source[0] = links_that_leave(source[0], app.config.repository)


def drop_empty_globs(app, docname, source):
    """A pattern of the table of contents may match nothing; Sphinx would warn."""
    if docname == "index":
        lines = source[0].splitlines()
        there = [not x.endswith("*") or any(HERE.glob(f"{x}.[mi]*")) for x in lines]
        source[0] = "\n".join(x for x, ok in zip(lines, there, strict=True) if ok)


def setup(app):
    """Sphinx calls this."""
    app.connect("config-inited", copy_notebooks)
    app.add_config_value("repository", "", "env")  # -D repository=https://...
    app.connect("source-read", drop_empty_globs)
    app.connect("source-read", name_files)
