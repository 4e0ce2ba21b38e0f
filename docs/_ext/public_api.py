"""The API reference: one page per public module, and an error for what has no words.

`public-api` lists every public name of a module with its signature and docstring, and
its fields with the words beside them (`#: ...`, or a string below). A name without
words is a warning, which `sphinx-build -W` turns into a failure.
"""

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import stringify_annotation

LOG = logging.getLogger(__name__)
# What those have that inherit from other libraries.
THEIRS = "object, tuple, Module, ModuleBase, Protocol, Generic"


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
    """Public functions and classes."""
    for name in public_names(module):
        value = getattr(module, name)
        if _is_ours(value) and (inspect.isclass(value) or inspect.isroutine(value)):
            yield name, value


def aliases(module: types.ModuleType) -> Iterator[tuple[str, Any, list[str]]]:
    """Public names of types and tables, with the words beside them."""
    skipped = {name for name, _ in described(module)}
    for name in public_names(module):
        value = getattr(module, name)
        if name not in skipped and not isinstance(value, types.ModuleType):
            yield name, value, _words_of_alias(module, name, value)


def undocumented(module: types.ModuleType) -> list[str]:
    """Public names, and methods and fields of public classes, without words."""
    found = [name for name, _, words in aliases(module) if not words]
    for name, value in described(module):
        doc = value.__doc__ or (_is_protocol(value) and value.__call__.__doc__) or ""
        # What NamedTuples and dataclasses write themselves is their signature.
        if not doc or doc.startswith(f"{name}("):
            found.append(name)
        found += [f"{name}.{member}" for member in _silent_members(value)]
    return sorted(found)


def _is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("fedjax_mos")


def _is_protocol(value: Any) -> bool:
    return getattr(value, "_is_protocol", False)


def _silent_members(value: Any) -> Iterator[str]:
    ours = [c for c in getattr(value, "__mro__", ()) if _is_ours(c)]
    for cls in ours:
        source = _source_of(cls.__module__)
        fields = source.annotations.keys() - source.attr_docs.keys()
        for there, name in fields:
            if there == cls.__qualname__ and not name.startswith("_"):
                yield name
        for name, member in vars(cls).items():
            method = inspect.isroutine(member) or isinstance(member, property)
            theirs = getattr(member, "__module__", cls.__module__) != cls.__module__
            silent = method and not theirs and not member.__doc__
            if silent and not name.startswith("_") and not hasattr(cls, "_fields"):
                yield name


@cache
def _source_of(module: str) -> ModuleAnalyzer:
    """`annotations` and `attr_docs` of it are by (class or "", name)."""
    source = ModuleAnalyzer.for_file(sys.modules[module].__file__, module)
    source.analyze()
    return source


def _words_of_alias(module: types.ModuleType, name: str, value: Any) -> list[str]:
    """They stand where it is defined: in the module or below it."""
    found: list[str] = []
    for path, there in list(sys.modules.items()):
        inside = path == module.__name__ or path.startswith(f"{module.__name__}.")
        if inside and vars(there).get(name) is value:
            found += _source_of(path).attr_docs.get(("", name), [])
    return found


def as_written(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list):
    """Docstrings are plain text: |v| and a* mean what they say, what is indented stays.

    Only `code` between backticks and examples are markup.
    """
    for number, line in enumerate(lines):
        if line.startswith((" ", ">>>", "...")):
            continue
        parts = line.split("`")
        parts[::2] = [re.sub(r"([|*\\])", r"\\\1", text) for text in parts[::2]]
        # A letter right behind code would keep it open.
        parts[2::2] = [re.sub(r"^(?=\w)", r"\\", text) for text in parts[2::2]]
        after = lines[number + 2 : number + 3]  # behind an empty line
        block = line.endswith(":") and after and after[0].startswith(" ")
        lines[number] = "`".join(parts) + (":" if block else "")


def as_called(app: Sphinx, what: str, name: str, obj: Any, options: Any, *_: Any):
    """A protocol is no class that one calls: `__call__` below says how."""
    return ("", "") if what == "class" and _is_protocol(obj) else None


class PublicApi(SphinxDirective):
    """Every public name of the module that is named."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        for name in undocumented(module):
            LOG.warning("%s.%s has no words", module.__name__, name)
        lines = []
        seen = self.env.temp_data.setdefault("public_api", [])
        for name, value in described(module):
            if value in seen:  # what is public by two names stands under the first
                continue
            seen.append(value)
            kind = "class" if inspect.isclass(value) else "function"
            lines += [f".. auto{kind}:: {module.__name__}.{name}"]
            if kind == "class":
                lines += ["   :members:", f"   :inherited-members: {THEIRS}"]
            if _is_protocol(value):
                lines += ["   :special-members: __call__"]
            lines += [""]
        for name, value, words in aliases(module):
            words = list(words)
            as_written(self.env.app, "data", name, value, None, words)
            lines += [f".. py:data:: {module.__name__}.{name}"]
            if hasattr(value, "__value__"):
                lines += [f"   :type: {stringify_annotation(value.__value__, 'smart')}"]
            lines += [""] + [f"   {line}" for line in words] + [""]
        node = nodes.section()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, source="public-api"), 0, node)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public-api", PublicApi)
    app.connect("autodoc-process-docstring", as_written)
    app.connect("autodoc-process-signature", as_called)
    return {"parallel_read_safe": True}
