"""Which reading of NLA/AA brings its orderings about? From the card nla-readings.

    fedjax-mos reproduce nla-readings --rounds 150 --out FOLDER
    python benchmarks/papers/nla_orderings.py FOLDER

The paper prints curves and says in words who is ahead (Section 5). Every claim is put
to every reading of its first method that the folder has; the second is the same reading
where there is one. A method is ahead if it needs fewer Mbit or rounds to the target, or
is more accurate in the end; one that never reaches the target is behind one that does.
Writes benchmarks/papers/nla_orderings.md.
"""

import argparse
import math
from pathlib import Path

import pandas as pd

from fedjax_mos.lab import summaries
from fedjax_mos.lab.papers.card import card_named
from fedjax_mos.lab.result import HISTORY

PAGE = Path(__file__).parent / "nla_orderings.md"
PARTS = {part.name: part.title for part in card_named("nla-readings").parts}
TARGET, METRIC = 0.8, "test_accuracy"
OTHERS = ("fedavg", "fedadam", "fedams")  # "the other three"
BOTH, UP, ROUNDS, LAST = "Mbit, both ways", "Mbit up", "rounds", "accuracy"
# Of the first method, what is better than that of the second.
CLAIMS = [
    *(("fednlaa", what, one) for one in OTHERS for what in (BOTH, UP, LAST)),
    *(
        (one, LAST, "fedavg") for one in ("fedadam", "fedams")
    ),  # it "performs the worst"
    *(("fednlaca", what, one) for one in OTHERS for what in (BOTH, UP)),
    *(("fedbnlaca", BOTH, one) for one in (*OTHERS, "fednlaca")),
    *(("fedaa", ROUNDS, one) for one in OTHERS),
    *(("fedaca", what, one) for one in OTHERS for what in (ROUNDS, LAST)),
    *(("fedbaca", what, one) for one in (*OTHERS, "fedaca") for what in (ROUNDS, LAST)),
    # Not in the text: what the rule adds to the method that it is added to.
    *(("fednlaca", what, "fedcams") for what in (BOTH, UP)),
    ("fedaca", ROUNDS, "fedcams"),
]


def measured(folder: Path) -> dict[str, float]:
    """What a member needs to the target, and where it ends."""
    frame = pd.read_csv(folder / HISTORY).set_index("round")
    if (folder / "refined.csv").exists():
        fine = pd.read_csv(folder / "refined.csv").set_index("round")
        frame = frame.combine_first(fine)
    at = summaries.rounds_to_target(frame.reset_index(), TARGET, METRIC)
    reached = not math.isnan(at)
    bits = frame[["bits_up", "bits_down"]].loc[at if reached else frame.index[-1]] / 1e6
    never = math.inf
    return {
        BOTH: float(bits.sum()) if reached else never,
        UP: float(bits["bits_up"]) if reached else never,
        ROUNDS: at if reached else never,
        LAST: 100 * float(frame[METRIC].dropna().iloc[-1]),
    }


def readings(method: str, known: dict[str, dict[str, float]]) -> list[str]:
    """`""` or `-rate`, `-advice` ...: those of a method that were run."""
    name = f"read-{method}"
    return [one.removeprefix(name) for one in known if _is(one, name)]


def _is(member: str, name: str) -> bool:
    return member == name or member.startswith(f"{name}-")


def rival(method: str, reading: str, known: dict[str, dict[str, float]]) -> str | None:
    """The same reading of another method, or its first one; None: it was not run."""
    own = readings(method, known)
    if not own:
        return None
    return f"read-{method}{reading if reading in own else own[0]}"


def verdicts(part: str, known: dict[str, dict[str, float]]) -> list[dict[str, object]]:
    """One row per claim and reading."""
    rows: list[dict[str, object]] = []
    for method, what, other in CLAIMS:
        for reading in readings(method, known):
            first = f"read-{method}{reading}"
            second = rival(other, reading, known)
            if second is None:
                continue
            a, b = known[first][what], known[second][what]
            if math.isinf(a) and math.isinf(b):
                holds = "neither"
            else:
                holds = "yes" if (a > b if what == LAST else a < b) else "no"
            claim = f"{method} better than {other}: {what}"
            rows.append(
                {"claim": claim, "first": first, "second": second, "part": part}
                | {"values": f"{_text(a)} / {_text(b)}", "holds": holds}
            )
    return rows


def _text(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.4g}"


def page(rows: pd.DataFrame, command: str) -> str:
    """How often each claim holds over readings, then every comparison."""
    decided = rows[rows["holds"] != "neither"]
    lines = [
        "# The orderings of NLA/AA, reading by reading",
        "",
        f"`{command}`. Target: {TARGET:.0%} test accuracy.",
        "",
        "## Per claim: of so many readings and parts, in how many it holds",
        "",
        "| claim | holds | neither gets there | holds wherever one gets there |",
        "|---|---|---|---|",
    ]
    for claim, own in rows.groupby("claim", sort=False):
        tried = decided[decided["claim"] == claim]
        always = [
            str(name).removeprefix("read-")
            for name, some in tried.groupby("first", sort=False)
            if (some["holds"] == "yes").all()
        ]
        lines.append(
            f"| {claim} | {(own['holds'] == 'yes').sum()} of {len(own)} | "
            f"{(own['holds'] == 'neither').sum()} | {', '.join(always)} |"
        )
    yes = (rows["holds"] == "yes").sum()
    lines += ["", f"All together: {yes} of {len(rows)}.", "", "## Every comparison", ""]
    parts = list(dict.fromkeys(rows["part"]))
    lines += [
        "| claim | first | second | " + " | ".join(PARTS[p] for p in parts) + " |",
        "|---" * (3 + len(parts)) + "|",
    ]
    for keys, own in rows.groupby(["claim", "first"], sort=False):
        cells = own.set_index("part").apply(
            lambda row: f"{row['values']}: {row['holds']}", axis=1
        )
        shown = [cells.get(part, "") for part in parts]
        claim, first = (str(key) for key in keys)
        second = own["second"].iloc[0]
        lines.append("| " + " | ".join([claim, first, second, *shown]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The folder of the card, finished or not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows: list[dict[str, object]] = []
    for part in PARTS:
        members = sorted((folder / part).glob("*/summary.json"))
        known = {path.parent.name: measured(path.parent) for path in members}
        order = [m.name for m in card_named("nla-readings").parts[0].members]
        rows += verdicts(part, {n: known[n] for n in order if n in known})
    text = page(pd.DataFrame(rows), "python benchmarks/papers/nla_orderings.py FOLDER")
    PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
