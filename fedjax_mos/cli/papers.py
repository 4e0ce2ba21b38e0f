"""The command that repeats tables and figures of papers."""

from pathlib import Path
from typing import Literal

import tyro

from fedjax_mos.cli.app import words
from fedjax_mos.cli.arguments import Quiet, all_cores, end, starting


def reproduce_card(
    name: tyro.conf.Positional[str] = "",
    scale: Literal["paper", "small"] = "paper",
    seeds: int | None = None,
    parts: tuple[str, ...] = (),
    members: tuple[str, ...] = (),
    rounds: int | None = None,
    data_dir: Path | None = None,
    out: Path | None = None,
    checkpoint_every: float = 60.0,
    quiet: Quiet = False,
) -> None:
    """Repeat a table or figure of a paper, our numbers beside the printed ones.

    Examples:
        fedjax-mos reproduce
        fedjax-mos reproduce nla-fig9 --scale small
        fedjax-mos reproduce fedmos-table1 --parts mnist --members fedmos-acs

    Args:
        name: What to repeat; without a name everything there is, with its cost.
        scale: How much of it: the full configuration of the paper, or the same
            protocol with a smaller network and fewer rounds.
        seeds: Number of seeds; by default the card's.
        parts: Some of the card's parts only.
        members: Some of its members only.
        rounds: At most so many rounds.
        data_dir: Where the data sets' files are.
        out: Folder for the results; by default reproduced/NAME-SCALE. The same command
            resumes what was ended.
        checkpoint_every: Seconds between checkpoints, from which a run is resumed.
        quiet: Print results and errors only.
    """
    if not name:
        from fedjax_mos.lab.papers.listing import listing

        print(listing())
        return
    starting(quiet)
    all_cores()
    from fedjax_mos.lab.papers.provenance import as_command
    from fedjax_mos.lab.papers.reproduce import reproduce

    folder = out or Path("reproduced") / f"{name}-{scale}"
    found = reproduce(
        name,
        scale,
        out=folder,
        seeds=seeds,
        parts=parts,
        members=members,
        rounds=rounds,
        data_dir=data_dir,
        progress=not quiet,
        checkpoint_every=checkpoint_every,
        command=as_command(words()),
    )
    print(found.markdown())
    end(folder, found.complete, "the same command resumes it")
