"""A table or figure of a paper, run again: our numbers beside the printed ones."""

import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedjax_mos.engine.checkpoints import EVERY
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab import folders
from fedjax_mos.lab.comparison_folder import is_done
from fedjax_mos.lab.compile_together import compile_together
from fedjax_mos.lab.papers.build import check_data, experiments
from fedjax_mos.lab.papers.card import SCALES, Card, Part, card_named
from fedjax_mos.lab.papers.provenance import note, origin_of, provenance
from fedjax_mos.lab.papers.refine import Keeper, refined, stop_of
from fedjax_mos.lab.papers.reproduced import Reproduced
from fedjax_mos.lab.papers.shared import take_over
from fedjax_mos.lab.result import HISTORY, Result
from fedjax_mos.lab.run_folder import RunFolder, given_back
from fedjax_mos.lab.structure import data_structure

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


def reproduce(
    name: str,
    scale: str = "paper",
    *,
    out: Path | str | None = None,
    seeds: int | None = None,
    parts: Sequence[str] = (),
    members: Sequence[str] = (),
    rounds: int | None = None,
    data_dir: Path | str | None = None,
    progress: bool = True,
    checkpoint_every: float = EVERY,
    command: str | None = None,
) -> Reproduced:
    """Run a card of `fedjax-mos reproduce`: a table or figure of a paper.

    `scale` is paper, the full configuration, or small: the same protocol, partition and
    hyperparameters with a smaller network and fewer rounds. In the folder `out` (by
    default reproduced/NAME-SCALE) every member has a folder of its own; the same call
    resumes what was ended and reads what is finished, also of other `parts` and
    `members`, which several processes may run at the same time. A run that a card in a
    folder beside `out` has finished is copied from there.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}: got {scale!r}")
    for what, count in (("seeds", seeds), ("rounds", rounds)):
        if count is not None and count < 1:
            raise ValueError(f"{what} must be at least 1: got {count}")
    card, began = card_named(name), time.perf_counter()
    count = card.seeds if seeds is None else seeds
    where = None if data_dir is None else Path(data_dir)
    folder = Path("reproduced") / f"{name}-{scale}" if out is None else Path(out)
    chosen = _chosen(card, parts, members)
    check_data(card, [part for part, _ in chosen], where)
    made = {p.name: experiments(p, scale, rounds, where) for p in card.parts}
    call = command or f"fm.reproduce({name!r}, {scale!r}, seeds={count})"
    origin = origin_of(call, next(iter(made[chosen[0][0].name].values())))
    complete = True
    for part, names in chosen:
        todo = {n: made[part.name][n] for n in names}
        complete = _run_part(
            part, todo, count, folder / part.name, origin, progress, checkpoint_every
        )
        if not complete:
            break
    found = Reproduced(card, scale, rounds, {}, {}, complete)
    own = {(part.name, name) for part, names in chosen for name in names}
    for part in card.parts:  # what other calls have run counts too
        done = _finished(folder / part.name, part, made[part.name])
        if not done:
            continue
        found.results[part.name] = done
        found.frames[part.name] = {
            name: refined(
                made[part.name][name],
                one.by_seed["seed"].nunique(),
                one.by_seed,
                part,
                folder / part.name / name,
                origin if complete and (part.name, name) in own else None,
                progress=progress,
            )
            for name, one in done.items()
        }
    if found.results:
        spent = time.perf_counter() - began
        found.write(folder, provenance(folder, found.results, spent))
    return found


def _chosen(
    card: Card, parts: Sequence[str], members: Sequence[str]
) -> list[tuple[Part, list[str]]]:
    """The parts to run, each with its members."""
    known = {part.name: part for part in card.parts}
    if unknown := [name for name in parts if name not in known]:
        raise ValueError(
            f"parts must be some of {', '.join(known)}: got {', '.join(unknown)}"
        )
    wanted = [known[name] for name in parts] or list(card.parts)
    every = dict.fromkeys(m.name for part in wanted for m in part.members)
    if unknown := [name for name in members if name not in every]:
        raise ValueError(
            f"members must be some of {', '.join(every)}: got {', '.join(unknown)}"
        )
    out = []
    for part in wanted:
        names = [m.name for m in part.members if not members or m.name in members]
        out += [(part, names)] * bool(names)
    return out


def _run_part(
    part: Part,
    members: "dict[str, Experiment]",
    seeds: int,
    folder: Path,
    origin: Mapping[str, str],
    progress: bool,
    checkpoint_every: float,
) -> bool:
    """Run members that are not finished; whether none was interrupted."""
    decides = stop_of(part)
    for name, experiment in members.items():
        found = take_over(folder / name, experiment, seeds, decides)
        if found is not None and progress:
            print(f"{part.name}: {name} is that of {found}", file=sys.stderr)
    todo = [one for n, one in members.items() if not is_done(folder / n, one)]
    compile_together(todo, seeds, progress=progress)
    for name, experiment in members.items():
        if progress:
            print(f"{part.name}: {name} ({seeds} seeds)", file=sys.stderr, flush=True)
        own = folder / name
        with alone(own), given_back(own):
            if not RunFolder(own, experiment, seeds, stop=decides).done:
                note(own, origin)
        keeper = Keeper(own, part.columns, decides)
        result = experiment.run(
            seeds,
            out=own,
            progress=progress,
            stop=keeper if experiment.eval_every > 1 else decides,
            picture=False,
            checkpoint_every=checkpoint_every,
        )
        if not result.complete:
            return False
    return True


def _finished(
    folder: Path, part: Part, members: "dict[str, Experiment]"
) -> dict[str, Result]:
    """Members of a part that were run to the end, as the card has them now."""
    found = {}
    hashes: dict[Hashable, str | None] = {}
    for member in part.members:
        own, one = folder / member.name, members[member.name]
        if not (own / HISTORY).exists():
            continue
        if is_done(own, one) and _data_of(one, hashes) in (None, _data_in(own)):
            found[member.name] = replace(Result.read(own), title=member.title)
        else:
            print(
                f"{own} is not what the card has now, of other data, or not finished: "
                "left out",
                file=sys.stderr,
            )
    return found


def _data_of(experiment: "Experiment", known: dict[Hashable, str | None]) -> str | None:
    """The hash of an experiment's data, read once; None: they are not here."""
    which = data_structure(experiment)
    if which not in known:
        try:
            known[which] = folders.data_hash(experiment)
        except FileNotFoundError:
            known[which] = None
    return known[which]


def _data_in(folder: Path) -> str | None:
    return folders.read_json(folder / folders.CONFIG)["data"]
