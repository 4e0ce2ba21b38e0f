"""Help that fits a screen: what a command does, examples, its options.

Everything is read from the command's signature and docstrings; options that few need
are named only, in groups, and explained by `--help-all`.
"""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tyro

from fedjax_mos.lab.setting import Method

ALL = "--help-all"
WIDTH = 79
# What few need, by what it is about; everything else has a line of its own.
FEW = {
    "data": ("data_dir", "data_seed", "importance", "held_out", "augment"),
    "clients": ("pool", "pool_every", "drop_nonfinite"),
    "local work": ("epochs", "batch_size", "loss"),
    "messages": ("uplink", "downlink", "broadcast"),
    "measuring": (
        *("eval_every", "eval_train", "stop_at", "per_client", "cohorts"),
        *("dropout_loss", "diagnostics"),
    ),
    "choosing": (
        *("independent", "eta", "rungs", "hyperband", "unit", "candidates"),
        *("step_size", "horizon", "versus_sweep"),
    ),
    "machine": (
        *("backend", "precision", "rows", "width", "checkpoint_every", "track"),
        "quiet",
    ),
    "processes": ("distributed", "coordinator_address", "num_processes", "process_id"),
}
_PYTHON_ONLY = ("metrics", "options")  # --set gives options
_KINDS = {Path: "PATH", int: "INT", float: "FLOAT", str: "NAME"}


class Option(NamedTuple):
    """One argument of a command."""

    name: str
    annotation: Any
    default: Any  # inspect.Parameter.empty: must be given
    about: str

    @property
    def positional(self) -> bool:
        """Whether it is given by its place."""
        return tyro.conf.Positional in getattr(self.annotation, "__metadata__", ())

    @property
    def place(self) -> str:
        """What stands for a positional one."""
        needed = self.default is inspect.Parameter.empty
        return self.name.upper() if needed else f"[{self.name.upper()}]"

    @property
    def flag(self) -> str:
        """As it is typed."""
        given = _arg(self.annotation)
        return f"--{(given.name if given else None) or self.name}".replace("_", "-")

    def shown(self) -> str:
        """As it is typed, with its default or with what it takes."""
        if self.positional:
            return self.place
        kind = _plain(self.annotation)
        given = _arg(self.annotation)
        if kind is bool:
            return f"--no-{self.flag[2:]}" if self.default else self.flag
        if given and given.metavar:
            return f"{self.flag} {given.metavar}"
        if isinstance(self.default, str | int | float):
            return f"{self.flag} {self.default}"
        several = " ..." if typing.get_origin(kind) is tuple else ""
        each = typing.get_args(kind)[0] if several else kind
        return f"{self.flag} {_KINDS.get(each, 'NAME')}{several}"

    def short(self, room: int) -> str:
        """What it is; its first clause only, if more than `room` would be needed."""
        values = _literals(self.annotation)
        clause = re.split(r"[.;:] |\.$", self.about)[0]
        if values:
            return f"{clause}: {', '.join(values)}."
        return self.about if len(self.about) <= room else f"{clause}."


def help_of(command: Callable, name: str) -> str:
    """What `fedjax-mos NAME --help` prints."""
    about, examples = said_of(command)
    options = list(options_of(command))
    places = "".join(f" {one.place}" for one in options if one.positional)
    few = {rare for names in FEW.values() for rare in names}
    lines = [f"usage: fedjax-mos {name}{places} [options]", "", *_wrapped(about), ""]
    lines += [f"  {example}" for example in examples]
    shown = [one for one in options if one.name not in few]
    if shown:
        wide = max(len(one.shown()) for one in shown)
        lines += ["", *(line for one in shown for line in _line(one, wide))]
    groups = {
        about: [one.flag for one in options if one.name in names]
        for about, names in FEW.items()
    }
    if any(groups.values()):
        lines += ["", f"More, which `fedjax-mos {name} {ALL}` explains:"]
        for group, flags in groups.items():
            if flags:
                lines += _wrapped(" ".join(flags), f"  {group:<12}", " " * 14)
    return "\n".join(lines)


def options_of(command: Callable) -> Iterator[Option]:
    """Its arguments: a method's own, the command's own, then a setting's fields."""
    said = _arguments(inspect.getdoc(command) or "")
    groups: tuple[list[Option], ...] = [], [], []
    for one in inspect.signature(command).parameters.values():
        kind = _plain(one.annotation)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            groups[1].append(
                Option(one.name, one.annotation, one.default, said[one.name])
            )
            continue
        about = {name: text for base in kind.__mro__ for name, text in _fields(base)}
        for field in dataclasses.fields(kind):
            if field.name not in _PYTHON_ONLY:
                method = kind is Method and field.name in Method.__annotations__
                text = about[field.name]
                option = Option(field.name, field.type, field.default, text)
                groups[0 if method else 2].append(option)
    return itertools.chain(*groups)


def said_of(command: Callable) -> tuple[str, list[str]]:
    """What a docstring says the command does, and its examples."""
    text = inspect.getdoc(command) or ""
    about = re.split(r"\n\n(?:Args|Examples):\n", text)[0]
    found = re.search(r"\n\nExamples:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    lines = textwrap.dedent(found[1]).splitlines() if found else []
    return " ".join(about.split()), lines


def _arguments(text: str) -> dict[str, str]:
    """What a docstring says of every argument."""
    found = re.search(r"\n\nArgs:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    entries = re.split(r"\n(?=\w)", textwrap.dedent(found[1])) if found else []
    pairs = (" ".join(entry.split()).split(": ", 1) for entry in entries)
    return {name: about for name, about in pairs}


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """(name, the text below it) of a dataclass's own fields."""
    if "__annotations__" not in vars(kind):
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            yield field.target.id, " ".join(ast.literal_eval(text.value).split())


def _plain(annotation: Any) -> Any:
    """An annotation without None and without what it adds for the parser."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _plain(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        some = [one for one in typing.get_args(annotation) if one is not type(None)]
        return some[0]
    return annotation


def _arg(annotation: Any) -> Any:
    """What `tyro.conf.arg` says of an argument, if anything."""
    extra = getattr(annotation, "__metadata__", ())
    return next((one for one in extra if hasattr(one, "metavar")), None)


def _literals(annotation: Any) -> tuple[str, ...]:
    kind = _plain(annotation)
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _line(one: Option, wide: int) -> list[str]:
    """One option with what it is, which begins in the same column for all."""
    shown, indent = one.shown(), " " * (wide + 4)
    return _wrapped(one.short(WIDTH - wide - 4), f"  {shown:<{wide}}  ", indent)


def _wrapped(text: str, first: str = "", then: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
    )
