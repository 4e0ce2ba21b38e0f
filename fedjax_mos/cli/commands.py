"""The commands that train: each parses, calls the lab and prints."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from fedjax_mos.cli.arguments import (
    Flat,
    Quiet,
    Settings,
    all_cores,
    check_alone,
    check_target,
    check_track,
    end_run,
    experiment_of,
    results_in,
    say_columns,
    starting,
)
from fedjax_mos.cli.together import ALONE, Processes, joined
from fedjax_mos.lab.default_names import DEFAULT_COMPARISON
from fedjax_mos.lab.setting import Method, Setting


def run(
    method: Annotated[Method, *Flat],
    seeds: int | None = None,
    settings: Settings = (),
    out: Path | None = None,
    target: float | None = None,
    config: Path | None = None,
    checkpoint_every: float = 60.0,
    track: tuple[str, ...] = (),
    processes: Annotated[Processes, *Flat] = ALONE,
    quiet: Quiet = False,
) -> None:
    """Run one experiment and write its history, summary and curves to a folder.

    Examples:
        fedjax-mos run --algorithm fedavg --rounds 200 --set lr=0.1
        fedjax-mos run --sampler md --partition dirichlet --set alpha=0.1
        fedjax-mos run --dataset my_data.npz --held-out 0.2 --out runs/mine

    Args:
        method: What to run.
        seeds: Number of seeds, from --seed on, run as one program.
        settings: Any option of any component: --set lr=0.1 --set partition.alpha=0.3.
        out: Folder for the results; by default a new one under runs/. One of the same
            run is resumed.
        target: Test accuracy of "rounds to target"; by default the data set's.
        config: The config.json of earlier results of any command, to be repeated as
            they were.
        checkpoint_every: Seconds between checkpoints, from which the run is resumed.
        track: Who is told the rows while it runs: csv, parquet, tensorboard, wandb,
            trackio.
        processes: Others that run this together.
        quiet: Print results and errors only.
    """
    with joined(processes):
        if config is not None:
            from fedjax_mos.cli.repeating import kind_in, repeat

            check_alone(method, settings, seeds)
            if (kind := kind_in(config)) != "run":
                return repeat(config, kind, out, checkpoint_every, track, quiet)
        starting(quiet)
        from fedjax_mos.lab.run_folder import check_data, repeated

        data = None
        if config is None:
            experiment = experiment_of(method, settings)
        else:
            experiment, seeds, data = repeated(config)
        check_target(target)
        check_track(track)
        experiment.check_seeds(seeds)
        all_cores()
        # All that is wrong is said before a folder is.
        experiment.build(lanes=seeds or 1)
        say_columns(experiment, quiet)
        if config is not None:
            check_data(config, experiment, data)
        with results_in(out, experiment.title.replace("/", "-")) as folder:
            result = experiment.run(
                seeds,
                out=folder,
                target=target,
                checkpoint_every=checkpoint_every,
                track=track,
                progress=not quiet,
            )
        print(result.text(target))
        end_run(folder, result)


def resume(
    folder: tyro.conf.Positional[Path],
    rounds: int | None = None,
    quiet: Quiet = False,
) -> None:
    """Resume what was ended from its last checkpoint.

    Examples:
        fedjax-mos resume runs/mine
        fedjax-mos resume runs/mine --rounds 500

    Args:
        folder: What a command that trains writes to.
        rounds: More rounds of a run or comparison than were asked for before.
        quiet: Print results and errors only.
    """
    from fedjax_mos.cli.words import said_in, say_again

    if said := said_in(folder):
        if rounds is not None:
            raise ValueError(
                f"rounds can be raised for runs and comparisons: {folder} is of "
                f"a {said[0]}"
            )
        return say_again(said, folder, quiet)
    starting(quiet)
    from fedjax_mos.lab import resume as lab

    all_cores()
    found = lab.resume(folder, rounds, progress=not quiet)
    print(found.text())
    end_run(folder, found)


def compare_methods(
    setting: Annotated[Setting, *Flat],
    algorithms: tuple[str, ...] = DEFAULT_COMPARISON,
    sampler: str = "ucs",
    seeds: int = 5,
    seed: int = 0,
    settings: Settings = (),
    out: Path | None = None,
    target: float | None = None,
    checkpoint_every: float = 60.0,
    track: tuple[str, ...] = (),
    processes: Annotated[Processes, *Flat] = ALONE,
    quiet: Quiet = False,
) -> None:
    """Compare methods on the same data, batches and (per sampler) cohorts.

    Examples:
        fedjax-mos compare
        fedjax-mos compare --algorithms fedmos/acs scaffold fedavg:lr=0.1 --seeds 3
        fedjax-mos compare --partition dirichlet --set alpha=0.1 --out runs/few

    Args:
        setting: What the members have in common.
        algorithms: Members as ALGORITHM, ALGORITHM/SAMPLER or with numbers of their
            own, ALGORITHM/SAMPLER:lr=0.1,server_lr=1.
        sampler: The sampler of members that name none.
        seeds: Number of seeds, run as one program.
        seed: The first seed.
        settings: Any option of any component: --set lr=0.1 for every member that has
            it, --set fedavg.lr=0.1 for one algorithm.
        out: Folder for the results; by default a new one under runs/. One of the same
            comparison is resumed.
        target: Test accuracy of "rounds to target"; by default the data set's.
        checkpoint_every: Seconds between checkpoints, from which a run is resumed.
        track: Who is told the rows while it runs: csv, parquet, tensorboard, wandb,
            trackio.
        processes: Others that run this together.
        quiet: Print results and errors only.
    """
    with joined(processes):
        starting(quiet)
        from fedjax_mos.lab import options
        from fedjax_mos.lab.compare import compare
        from fedjax_mos.lab.members import members_of

        given = options.parse(settings)
        members = members_of(setting, algorithms, given, sampler=sampler, seed=seed)
        rates = {m.options.get("algorithm.lr") for m in members.values()} - {None}
        if rates and not quiet and not {"lr", "algorithm.lr"} & set(given):
            print(
                f"no method is tuned on these data: lr {rates.pop():g} for all that "
                "have none of their own (--set lr=VALUE)",
                file=sys.stderr,
            )
        check_target(target)
        check_track(track)
        all_cores()
        for member in members.values():
            member.build(lanes=seeds)  # all that is wrong is said before a folder is
        say_columns(next(iter(members.values())), quiet)
        with results_in(out, "compare") as folder:
            found = compare(
                members,
                seeds,
                out=folder,
                target=target,
                checkpoint_every=checkpoint_every,
                track=track,
                progress=not quiet,
            )
        print(found.text(target))
        end_run(folder, found)
