"""Simulate federated learning: fedjax-mos COMMAND [options]."""

import atexit
import dataclasses
import difflib
import gc
import importlib
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable

from fedjax_mos._version import __version__

# Command -> (module, function, what it does); nothing is imported before it is called.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("commands", "run", "Run one experiment."),
    "compare": ("commands", "compare_methods", "Compare methods."),
    "resume": ("commands", "resume", "Resume what was ended, from its folder."),
    "sweep": ("studies", "sweep_options", "Try many configurations as one program."),
    "search": ("searches", "search_options", "Find the best of many by halving."),
    "tune": ("studies", "tune_numbers", "Tune numbers by gradient through the run."),
    "reproduce": (
        "papers",
        "reproduce_card",
        "Repeat a table or figure of a paper.",
    ),
    "plot": ("showing", "plot", "Draw results that were written before."),
    "table": ("showing", "print_table", "Print results as a table for a paper."),
    "report": ("showing", "write_report", "Make one page of HTML of a folder."),
    "list": (
        "inquiries",
        "list_components",
        "Show every name, its options and paper.",
    ),
    "describe": ("inquiries", "describe", "Say what an experiment takes of memory."),
    "cite": ("inquiries", "cite", "Print what to cite for an experiment."),
    "data": ("inquiries", "data", "Fetch a data set."),
    "doctor": ("doctor", "doctor", "Say what is installed, found and wrong."),
}
INTERRUPTED, FAILED, DIVERGED, UNWRITTEN = 130, 1, 3, 4  # exit statuses


def main(args: list[str] | None = None) -> None:
    """Entry point; a wrong argument ends with one message and exit status 2."""
    if args is None:
        _collect_rarely()
    name, *rest = (sys.argv[1:] if args is None else args) or ["--help"]
    if name in ("-h", "--help"):
        print(help_text())
        return
    if name == "--version":
        print(f"fedjax_mos {__version__}")
        return
    try:
        call(name, rest)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = None
    except (ValueError, OSError, MemoryError) as error:
        print(f"fedjax-mos: {str(error) or 'not enough memory'}", file=sys.stderr)
        raise SystemExit(2) from None
    except RuntimeError as error:
        if type(error).__name__ != "JaxRuntimeError":  # nothing imports JAX for this
            raise
        why = str(error).partition("\n")[0]
        end_together(why)
        print(f"fedjax-mos: the machine could not compute this: {why}", file=sys.stderr)
        raise SystemExit(FAILED) from None
    except KeyboardInterrupt:
        print("fedjax-mos: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def end_together(why: str) -> None:
    """End a process that has lost another one, at once.

    An end in good order would wait for those that are gone.
    """
    processes = sys.modules.get("fedjax_mos.processes")
    if processes is None or not processes.several():
        return
    print(
        "fedjax-mos: another process of this run has ended or cannot be reached "
        f"({why}). Start all of them again: they resume from the last checkpoint.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(FAILED)


def _collect_rarely() -> None:
    """Spare a process of ours most of Python's search for garbage.

    Tracing makes very many objects that stay; at the end the system takes them all.
    """
    gc.set_threshold(200_000, 20, 100)
    atexit.register(gc.freeze)


def help_text() -> str:
    """What `fedjax-mos --help` prints."""
    lines = [f"  {name:<10} {about}" for name, (_, _, about) in COMMANDS.items()]
    tail = [
        "`fedjax-mos COMMAND --help` shows the options of a command;",
        "`fedjax-mos COMMAND --quiet` shows no progress.",
    ]
    return "\n".join([__doc__ or "", "", *lines, "", *tail])


_words: list[str] = []


def words() -> list[str]:
    """Those of the command under way."""
    return list(_words)


def call(name: str, args: list[str]) -> None:
    """One command with its words."""
    _words[:] = [name, *args]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"command must be one of {', '.join(COMMANDS)}: got {name!r}{hint}"
        )
    check_words(args)
    import tyro

    from fedjax_mos.cli.conversion import registry
    from fedjax_mos.cli.help import ALL, help_of

    module, function, _ = COMMANDS[name]
    command = getattr(importlib.import_module(f"fedjax_mos.cli.{module}"), function)
    if {"-h", "--help"} & {*args}:
        print(help_of(command, name))
        return
    args = ["--help" if word == ALL else word for word in args]
    check_flags(name, command, args)
    with registry():
        tyro.cli(command, prog=f"fedjax-mos {name}", args=args)


_MANY = ("--set", "--over", "--point", "--schedule")  # what may be given several times


def check_words(args: list[str]) -> None:
    """Refuse an empty word, and an option that is given twice: one would be lost."""
    seen: dict[str, str] = {}
    last = "a word"
    for word in args:
        flag, equals, value = word.partition("=")
        if not word or (flag.startswith("--") and equals and not value):
            raise ValueError(f"{flag or last} must not be empty: got ''")
        if not word.startswith("--"):
            continue
        last = flag
        name = f"--{flag[2:].removeprefix('no-').replace('_', '-')}"
        if name in seen and name not in _MANY:
            raise ValueError(f"{name} must be given once: got {seen[name]} and {word}")
        seen[name] = word


def check_flags(name: str, command: Callable[..., None], args: list[str]) -> None:
    """Refuse a flag that a command does not have; say what to write instead."""
    known: set[str] = {"help"}
    for parameter in inspect.signature(command).parameters.values():
        kind, *marks = typing.get_args(parameter.annotation) or (None,)
        named = [mark.name for mark in marks if getattr(mark, "name", None)]
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        known.update([f.name for f in fields] or named or [parameter.name])
    for before, word in zip(["", *args], args, strict=False):
        flag = word.partition("=")[0]
        lone = not before.startswith("--") or "=" in before
        if "set" in known and lone and re.match(r"[\w.]+=", word):
            raise ValueError(f"{word} must stand behind --set: --set {word}")
        asked = flag[2:].removeprefix("no-").replace("-", "_")
        if not flag.startswith("--") or asked in known or asked.startswith("tyro"):
            continue
        close = difflib.get_close_matches(asked, known, n=1)
        hints = [f"did you mean --{close[0].replace('_', '-')}?"] if close else []
        if "over" in known:
            hints.append(f"values to try are given by --over {asked}=VALUES")
        if "set" in known:
            hints.append(f"options of components are given by --set {asked}=VALUE")
        raise ValueError(
            f"{flag} is no option of {name}{': ' * bool(hints)}{'; '.join(hints)}"
        )
