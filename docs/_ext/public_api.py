"""The API reference: one page per public module, and an error for what has no words.

`public-api` lists every public name of a module with its signature and docstring. A
name without a docstring is a warning, which `sphinx-build -W` turns into a failure.
"""

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOG = logging.getLogger(__name__)


def public_names(module: types.ModuleType) -> list[str]:
    """`__all__`, or what a module without one defines itself."""
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]
    return sorted(getattr(module, "__all__", own))


def described(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public functions and classes; neither modules nor aliases of types."""
    for name in public_names(module):
        value = getattr(module, name)
        ours = getattr(value, "__module__", "").startswith("fedjax_mos")
        if ours and (inspect.isclass(value) or inspect.isroutine(value)):
            yield name, value


def undocumented(module: types.ModuleType) -> list[str]:
    """Public names, and methods of public classes, without a docstring of their own."""
    found = []
    for name, value in described(module):
        doc = inspect.getdoc(value) or ""
        # What NamedTuples and dataclasses write themselves is their signature.
        if not doc or doc.startswith(f"{name}("):
            found.append(name)
        found += [f"{name}.{method}" for method in _silent_methods(value)]
    return found


def _silent_methods(value: Any) -> Iterator[str]:
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        method = inspect.isroutine(member) or isinstance(member, property)
        theirs = getattr(member, "__module__", value.__module__) != value.__module__
        if method and not theirs and not name.startswith("_") and not member.__doc__:
            yield name


def as_written(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list):
    """Docstrings are plain text: |v| and a* mean what they say, what is indented stays.

    Only `code` between backticks and examples are markup.
    """
    for number, line in enumerate(lines):
        if line.startswith((" ", ">>>", "...")):
            continue
        parts = line.split("`")
        parts[::2] = [re.sub(r"([|*\\])", r"\\\1", text) for text in parts[::2]]
        after = lines[number + 2 : number + 3]  # behind an empty line
        block = line.endswith(":") and after and after[0].startswith(" ")
        lines[number] = "`".join(parts) + (":" if block else "")


class PublicApi(SphinxDirective):
    """Every public name of the module that is named."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        for name in undocumented(module):
            LOG.warning("%s.%s has no docstring", module.__name__, name)
        lines = []
        seen = self.env.temp_data.setdefault("public_api", [])
        for name, value in described(module):
            if value in seen:  # what is public by two names stands under the first
                continue
            seen.append(value)
            kind = "class" if inspect.isclass(value) else "function"
            lines += [f".. auto{kind}:: {module.__name__}.{name}"]
            lines += ["   :members:"] * (kind == "class")
            lines += [""]
        node = nodes.section()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, source="public-api"), 0, node)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public-api", PublicApi)
    app.connect("autodoc-process-docstring", as_written)
    return {"parallel_read_safe": True}
