"""The command line: fedjax-mos run | compare | sweep | tune | list | cite | data."""

import sys
import types
import typing
from typing import Any

import tyro

from fedjax_mos.cli import commands, inquiries


def main(args: list[str] | None = None) -> None:
    """Entry point; a wrong argument ends with one message and exit status 2."""
    app = tyro.extras.SubcommandApp()
    for command in (commands.run, commands.compare, commands.sweep, commands.tune):
        app.command(command)
    app.command(name="list")(inquiries.list_components)
    app.command(inquiries.cite)
    app.command(inquiries.data)
    try:
        with components_by_name():
            app.cli(prog="fedjax-mos", description=__doc__, args=args)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = None
    except (ValueError, OSError) as error:
        print(f"fedjax-mos: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("fedjax-mos: interrupted", file=sys.stderr)
        raise SystemExit(commands.INTERRUPTED) from None


def components_by_name() -> tyro.constructors.ConstructorRegistry:
    """On the command line a component that may be an object is given by its name."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def name(info: Any) -> tyro.constructors.PrimitiveConstructorSpec | None:
        union = typing.get_origin(info.type) in (typing.Union, types.UnionType)
        kinds = typing.get_args(info.type) if union else ()
        if str not in kinds or {*kinds} <= {str, type(None)}:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="NAME",
            instance_from_str=lambda words: words[0],
            is_instance=lambda value: True,
            str_from_instance=lambda value: [str(value)],
        )

    return registry
