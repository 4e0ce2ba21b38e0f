"""An experiment as words of the command line, drawn from the pools."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from fedjax_mos.lab.experiment import Experiment
from tests.bad_input.harness import same
from tests.bad_input.pools import FIELDS, MOST, OPTIONS, Own, Pool

Wrong = list[tuple[Any, ...]]
Checks = list[Callable[[Experiment], None]]
# Fields that only some settings allow.
_POOLED = ("pool", "pool_every")
_WORK = ("steps", "epochs")  # of which there is one
_CHOOSERS = ("ucs", "md", "acs")
_NUMBERS = ("clients", "cohort", "partition", "dataset")


def experiment_words(
    rng: random.Random,
    *,
    method: bool = True,
    own: bool = True,
    few: bool = False,
    data: bool = True,
) -> tuple[list[str], Wrong, Checks]:
    """Flags, what is wrong with them, and what to find in the experiment."""
    words: list[str] = []
    wrong: Wrong = []
    checks: Checks = []
    # Without data only what annotations and names say can be known to be wrong.
    places = [o for o in OPTIONS if data or o.kind in ("algorithm", "local", "uplink")]
    place: Own | None = rng.choice(places) if own and rng.random() < 0.6 else None
    fixed = dict(place.fields) if place else {}
    fixed.setdefault("clients", rng.choice(FIELDS["clients"].good))
    fixed.setdefault("rounds", "5")
    # A wrong value of what another field rests on would be met by that one first.
    other = [n for n in FIELDS if n not in fixed and _allowed(n, fixed, method)]
    if few:
        other = ["cohort", "steps", "batch_size", "partition", "data_seed"]
    for name in rng.sample(other, rng.randint(0, 4)):
        if name in _POOLED and fixed.get("sampler", "acs") not in _CHOOSERS:
            continue
        if name == "sampler" and {*fixed} & {*_POOLED}:
            continue
        pool = FIELDS[name]
        bad = wrong_now(rng) and (data or name not in ("model", "dataset", "stop_at"))
        text = rng.choice(pool.bad if bad else pool.good)
        if {name} & {*_WORK} and {*fixed} & {*_WORK}:
            continue
        known = not text.startswith("npz:")
        known = known and text not in ("1079", "100000000", "61", MOST)
        if bad and not data and not known:
            continue
        fixed[name] = text
        if bad:
            wrong.append(_told(name, text))
    for name, text in fixed.items():
        words += [f"--{name.replace('_', '-')}", text]
        if not wrong:
            checks.append(_has_field(name, FIELDS[name].read(text)))
    if rng.random() < 0.1 and "dataset" not in fixed:
        words.append(rng.choice(["--augment", "--cohorts", "--drop-nonfinite"]))
    if place:
        count = rng.randint(1, len(place.options))
        for name in rng.sample(sorted(place.options), count):
            pool = place.options[name]
            bad = wrong_now(rng)
            text = rng.choice(pool.bad if bad else pool.good)
            words += ["--set", f"{name}={text}"]
            if bad:
                wrong.append(_told(name.rpartition(".")[2], text))
            else:
                checks.append(_has_option(place.kind, name, pool, text))
    return words, wrong, checks


def _allowed(name: str, fixed: dict[str, str], method: bool) -> bool:
    if not method and name in ("algorithm", "sampler", "seed"):
        return False
    if name in _POOLED and "sampler" in fixed:
        return False
    if fixed.get("dataset") == "synthetic_population" and name == "per_client":
        return False
    if "dataset" in fixed or fixed.get("sampler") in ("power_of_choice", "cacs"):
        return name not in (*_POOLED, *_NUMBERS, "model", "held_out", "backend")
    if "uplink" in fixed and name == "downlink":  # whose options have the same names
        return False
    if fixed.get("algorithm") == "lag":
        return name not in (*_POOLED, "uplink", "downlink", "sampler", "cohort")
    return True


def _told(name: str, text: str) -> tuple[Any, ...]:
    """What a message must contain: the argument and its value."""
    names = (name, name.replace("_", "-"), name.removesuffix("s"))
    return (names, shown(text))


def shown(text: str) -> tuple[str, ...]:
    """How a value may stand in a message."""
    found = [repr(text), text.partition(":")[2] or text or "='"]
    found += [text.replace(",", ", ")] if "," in text else []
    try:
        number = float(text)
        found += [str(number), f"{number:g}"]
        found += [f"{int(text):,}"] if text.lstrip("-").isdigit() else []
    except (ValueError, OverflowError):
        pass
    return tuple(found)


def flag(
    rng: random.Random, name: str, pool: Pool, bad: bool, wrong: Wrong
) -> list[str]:
    text = rng.choice(pool.bad if bad else pool.good)
    if bad:
        wrong.append(_told(name, text))
    return [f"--{name.replace('_', '-')}", text]


def drawn(rng: random.Random, table: Sequence[Any], count: int) -> list[Any]:
    """Rows of a table with different names, mostly right ones."""
    good = [row for row in table if row[1] is None]
    bad = [row for row in table if row[1] is not None]
    rows = rng.sample(good, min(count, len(good)))
    if wrong_now(rng):
        row = rng.choice(bad)
        name = row[0].partition("=")[0]
        rows = [r for r in rows if r[0].partition("=")[0] != name] + [row]
    return rows


def wrong_now(rng: random.Random, share: float = 0.2) -> bool:
    return rng.random() < share


def _has_field(name: str, value: Any) -> Callable[[Experiment], None]:
    def check(one: Experiment) -> None:
        found = getattr(one, name)
        assert same(found, value), f"{name} is {found!r}, not {value!r}"

    return check


def _has_option(kind: str, name: str, pool: Pool, text: str) -> Any:
    value = pool.read(text)
    if pool.good == ("true", "false"):
        value = text == "true"

    def check(one: Experiment) -> None:
        found = one.parts[kind].spec.options[name.rpartition(".")[2]]
        assert value is None or same(found, value), (
            f"{name} is {found!r}, not {value!r}"
        )

    return check


def checked(checks: Checks) -> Callable[[list[Experiment]], None]:
    def check(experiments: list[Experiment]) -> None:
        for one in experiments:
            for each in checks:
                each(one)

    return check
