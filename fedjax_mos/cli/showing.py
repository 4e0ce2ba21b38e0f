"""Commands that show results that were written before."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from fedjax_mos.cli.arguments import writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_mos.lab.showing import Shown

Kind = Literal[
    "curves",
    "targets",
    "partition",
    "selection",
    "clients",
    "heat_map",
    "halving",
    "trajectory",
]


def plot(
    folders: tyro.conf.Positional[tuple[Path, ...]],
    kind: Kind = "curves",
    metrics: tuple[str, ...] = (),
    x: Literal["round", "bits", "gradients", "seconds"] = "round",
    band: Literal["std", "sem", "ci95"] = "std",
    smooth: int = 1,
    targets: tuple[float, ...] = (),
    axes: tuple[str, ...] = (),
    out: Path | None = None,
) -> None:
    """Draw results that were written before, of one folder or of several together.

    Examples:
        fedjax-mos plot runs/few --x bits --out bits.pdf
        fedjax-mos plot runs/few --kind targets --targets 0.8 0.9
        fedjax-mos plot runs/mos --kind heat_map --axes lr server_lr

    Args:
        folders: What run, compare, sweep or tune wrote.
        kind: The picture. partition: who has which classes; selection: who took part
            (runs with --cohorts); clients: how each fares (runs with --per-client);
            heat_map: a sweep by two axes; halving: a search's rungs; trajectory: a
            tuning's numbers.
        metrics: Columns to draw; by default loss and accuracy.
        x: What curves are drawn against.
        band: What bands of curves show of the seeds.
        smooth: Window of a moving average, in evaluations.
        targets: Values to count rounds to; by default the data set's.
        axes: The two axes of a heat map.
        out: The picture's file, .png, .svg or .pdf; by default in the first folder,
            named after what it shows.
    """
    from fedjax_mos.lab.pictures import save

    results = _read(folders)
    figure = _figure(results, kind, metrics, x, band, smooth, targets, axes)
    told = (kind, *metrics, *axes, *([] if x == "round" else [x]))
    path = out or folders[0] / f"{'-'.join(told)}.png"
    with writable(path, "file"):
        save(figure, path)
    print(path)


def print_table(
    folders: tyro.conf.Positional[tuple[Path, ...]],
    form: Literal["text", "markdown", "csv", "latex"] = "text",
    metric: str | None = None,
    targets: tuple[float, ...] = (),
    at: tuple[int, ...] = (),
    baseline: str | None = None,
    spread: Literal["std", "sem", "ci95"] = "std",
    per: str | None = None,
    top: int | None = None,
) -> None:
    """Print results as a table for a paper.

    Examples:
        fedjax-mos table runs/few --form latex --targets 0.8 0.9
        fedjax-mos table runs/few --baseline fedavg/ucs --spread ci95
        fedjax-mos table runs/mos --per algorithm

    Args:
        folders: What run, compare or sweep wrote; runs of several folders together.
        form: text, markdown, csv or latex (booktabs).
        metric: The column to compare by; by default the test accuracy, of sweeps the
            validation accuracy.
        targets: Values to count rounds to; by default the data set's.
        at: Rounds to show the metric after.
        baseline: A member that the others are tested against.
        spread: What stands behind ±.
        per: Of a sweep: the best configuration for each value of this axis.
        top: Of a sweep: so many configurations.
    """
    from fedjax_mos.lab.sweeps.cube import Cube

    results = _read(folders)
    if isinstance(results[0], Cube):
        if at or baseline is not None or spread != "std" or len(targets) > 1:
            raise ValueError(
                "of a sweep at, baseline, spread and further targets are not shown: "
                "give metric, one target, per or top"
            )
        first = targets[0] if targets else None
        printed = results[0].printed(first, metric, top, per)
    else:
        printed = _together(results).printed(
            targets or None, metric=metric, at=at, baseline=baseline, spread=spread
        )
    print(getattr(printed, form)())


def write_report(folder: tyro.conf.Positional[Path], out: Path | None = None) -> None:
    """Make one page of HTML of a folder: settings, pictures, tables, what to cite.

    Examples:
        fedjax-mos report runs/few
        fedjax-mos report runs/few --out page.html

    Args:
        folder: What run, compare, sweep or tune wrote.
        out: The page's file; by default report.html in the folder.
    """
    from fedjax_mos.lab.report import report

    path = out or folder / "report.html"
    page = report(_read((folder,))[0])
    with writable(path, "file"):
        path.write_text(page, encoding="utf-8")
    print(path)


def _read(folders: tuple[Path, ...]) -> list[Any]:
    from fedjax_mos.lab.folders import read

    if not folders:
        raise ValueError("folders must name at least one folder of results: got none")
    results = [read(folder) for folder in folders]
    if len(results) > 1:
        _together(results)  # raises: sweeps and tunings are shown one by one
    return results


def _together(results: list[Any]) -> "Shown":
    """Runs and comparisons as one comparison."""
    from fedjax_mos.lab.compare import Comparison
    from fedjax_mos.lab.showing import Shown

    members: dict[str, Any] = {}
    for result in results:
        if not isinstance(result, Shown):
            raise ValueError(
                "folders must hold runs and comparisons to be shown like this: "
                f"one holds a {result.KIND} (fedjax-mos report shows it)"
            )
        for name, member in result.members.items():
            count = sum(known.split(" #")[0] == name for known in members)
            members[f"{name} #{count + 1}" if count else name] = member
    return Comparison(members)


def _figure(
    results: list[Any],
    kind: Kind,
    metrics: tuple[str, ...],
    x: str,
    band: str,
    smooth: int,
    targets: tuple[float, ...],
    axes: tuple[str, ...],
) -> "Figure":
    from fedjax_mos.lab.hypergradients.tuned import Tuned
    from fedjax_mos.lab.searches.found import Search
    from fedjax_mos.lab.sweeps.cube import Cube

    first = results[0]
    metric = metrics[0] if metrics else None
    needs = {
        "heat_map": (Cube, "sweep"),
        "halving": (Search, "search"),
        "trajectory": (Tuned, "tuning"),
    }
    if kind in needs and not isinstance(first, needs[kind][0]):
        raise ValueError(f"kind {kind} needs the folder of a {needs[kind][1]}")
    if kind == "halving":
        return first.halving()
    if kind == "heat_map":
        return first.heat_map(*axes, metric=metric)
    if kind == "trajectory":
        return first.trajectory()
    if isinstance(first, Cube) and kind == "curves":
        return first.curves(metric=metric)
    together = _together(results)
    if kind == "partition":
        one = next(iter(together.members.values())).experiment
        if one is None:
            raise ValueError("kind partition needs an experiment without own objects")
        return one.partition_map()
    if kind == "targets":
        return together.target_bars(targets or None, metric)
    if kind == "selection":
        return together.selection()
    if kind == "clients":
        return together.client_distributions(metric)
    return together.curves(metrics or None, x=x, band=band, smooth=smooth)
