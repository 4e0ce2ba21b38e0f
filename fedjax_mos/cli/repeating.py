"""Comparisons and studies repeated from their config.json, as `run --config` does."""

from pathlib import Path

from fedjax_mos.cli.arguments import (
    all_cores,
    check_track,
    end_run,
    results_in,
    starting,
)
from fedjax_mos.cli.words import said_in, say_again


def kind_in(config: Path) -> str:
    """What a config.json is of: a run, comparison, sweep, search or tuning."""
    from fedjax_mos.lab import folders

    try:
        return str(folders.read_json(config)["kind"])
    except folders.DAMAGED as error:
        raise ValueError(
            f"config must be the config.json of results: {config} is not ({error})"
        ) from error


def repeat(
    config: Path,
    kind: str,
    out: Path | None,
    every: float,
    track: tuple[str, ...],
    quiet: bool,
) -> None:
    """What a config.json that is of no run tells, in a folder of its own."""
    if kind == "comparison":
        _compare_again(config, out, every, track, quiet)
        return
    if track:
        raise ValueError(f"track is for runs and comparisons: {config} is of a {kind}")
    said = said_in(config.parent)
    if said is None:
        raise ValueError(
            f"config must be of a run or a comparison, or lie in a folder that a "
            f"command has written: {config} is of a {kind} from Python, repeat it there"
        )
    say_again(said, out, quiet)


def _compare_again(
    config: Path, out: Path | None, every: float, track: tuple[str, ...], quiet: bool
) -> None:
    starting(quiet)
    from fedjax_mos.lab.compare import compare
    from fedjax_mos.lab.comparison_folder import asked_in
    from fedjax_mos.lab.run_folder import check_data

    check_track(track)
    said = asked_in(config)
    all_cores()
    for name, before in said.data.items():
        check_data(config, said.members[name], before)
    with results_in(out, "compare") as folder:
        found = compare(
            said.members,
            said.seeds,
            progress=not quiet,
            out=folder,
            target=said.target,
            checkpoint_every=every,
            track=track,
        )
    print(found.text(said.target))
    end_run(folder, found)
