"""The words of a command, kept in its folder so that `resume` can say them again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedjax_mos.cli.app import COMMANDS, call, words
from fedjax_mos.cli.arguments import end


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Keep the words in a folder that is new; say how to resume it, if interrupted."""
    from fedjax_mos.lab.run_folder import WORDS, is_empty

    with suppress(OSError):  # what cannot be written is refused by who needs it
        folder.mkdir(parents=True, exist_ok=True)
        if is_empty(folder):
            (folder / WORDS).write_text(json.dumps(words()))
    try:
        yield
    except KeyboardInterrupt:
        end(folder, False, f"fedjax-mos resume {folder} resumes it")


def said_in(folder: Path) -> list[str] | None:
    """The words that were kept in a folder; None if there are none."""
    from fedjax_mos.lab.run_folder import WORDS

    path = folder / WORDS
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    good = isinstance(found, list) and all(isinstance(word, str) for word in found)
    if not good or not found or found[0] not in COMMANDS:
        raise ValueError(f"{path} must hold a command of fedjax-mos: got {found!r}")
    return found


def say_again(said: list[str], folder: Path) -> None:
    """The same command with this folder."""
    name, *rest = said
    kept = []
    skip = False
    for word in rest:
        if not skip and word != "--out" and not word.startswith("--out="):
            kept.append(word)
        skip = word == "--out"
    call(name, [*kept, "--out", str(folder)])
