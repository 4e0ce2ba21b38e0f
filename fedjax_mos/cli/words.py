"""The words of a command, kept in its folder so that `resume` can say them again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedjax_mos.cli.app import COMMANDS, call, words
from fedjax_mos.cli.arguments import end, results_in
from fedjax_mos.cli.together import NAMES


@contextmanager
def resumable(out: Path | None, name: str) -> Iterator[Path]:
    """`out` or a new folder, with the words in it where it holds nothing yet.

    Says how to resume it, if interrupted.
    """
    from fedjax_mos.folder_lock import alone
    from fedjax_mos.lab.files import whole
    from fedjax_mos.lab.run_folder import WORDS, is_empty

    with results_in(out, name) as folder:
        # What cannot be written, or is in use, is refused by who needs it.
        with suppress(OSError, ValueError), alone(folder) as own:
            if is_empty(own):
                with whole(own / WORDS) as path:
                    path.write_text(json.dumps(_without(words(), *NAMES)))
        try:
            yield folder
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


def say_again(said: list[str], folder: Path | None, quiet: bool) -> None:
    """The same command with this folder, or with a new one."""
    name, *kept = _without(said, "--out", "--quiet")
    kept += ["--quiet"] if quiet else []
    call(name, kept if folder is None else [*kept, "--out", str(folder)])


def _without(said: list[str], *flags: str) -> list[str]:
    """Words without some options and their values, if they have any."""
    kept = []
    skip = False
    for word in said:
        if not skip and word.partition("=")[0] not in flags:
            kept.append(word)
        skip = word in flags and word not in ("--distributed", "--quiet")
    return kept
