"""Calls in Python: experiments, partitions, federated arrays and frames."""

import random
from functools import partial
from typing import Any

import numpy as np

import fedjax_mos as fm
from fedjax_mos.lab.experiment import Experiment
from tests.bad_input.files import wrong_value
from tests.bad_input.harness import Input, same
from tests.bad_input.pools import FIELDS
from tests.bad_input.words import shown

_LABELS = np.arange(300) % 10
_INTEGERS = (1.5, "3", None, True, [1], float("nan"), -1)


def experiment(rng: random.Random) -> Input:
    """Fields as Python gives them: of the right type, or of any other."""
    given: dict[str, Any] = {"clients": 20, "cohort": 5, "model": "logistic"}
    names = rng.sample(
        [n for n in FIELDS if n not in ("pool", "dataset", "diagnostics")], 3
    )
    if {"steps", "epochs"} <= {*names}:
        names.remove("epochs")
    wrong = []
    for name in names:
        if rng.random() < 0.25:
            value = wrong_value(rng, name)
            wrong.append((name, (repr(value), str(value), *shown(str(value)))))
        else:
            value = FIELDS[name].read(rng.choice(FIELDS[name].good))
        given[name] = value
    if given.get("sampler") in ("cacs", "power_of_choice"):
        given.pop("sampler")

    def call() -> Experiment:
        made = Experiment(**given)
        made.build()
        return made

    def check(found: list[Experiment]) -> None:
        for name, value in given.items():
            assert same(getattr(found[0], name), value), name

    call.told = given  # type: ignore[attr-defined]
    return Input("Experiment", call, tuple(wrong), check)


_OPTIONS: dict[str, dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]] = {
    "iid": {},
    "dirichlet": {
        "alpha": ((0.1, 5), (0, -1, float("nan"), float("inf"), 1e-310)),
        "smallest": ((1, 5), (0, -1, 1000, 1.5, "2")),
    },
    "dirichlet_balanced": {"alpha": ((0.1, 1e-30), (0, -1.0, float("inf")))},
    "dirichlet_visiting": {"alpha": ((0.1, 1e-30), (0, -1.0, 1e-310, 5e-324))},
    "quantity": {"alpha": ((0.5,), (0, -2.0)), "smallest": ((1, 3), (0, 999))},
    "shards": {"shards_per_client": ((1, 3), (0, -1, 1.5, 1000))},
    "classes": {
        "classes_per_client": ((1, 3), (0, -1, 11, 2.5)),
        "smallest": ((10,), (0, -1, 51, 1.5)),
    },
}


def partition(rng: random.Random) -> Input:
    """A partition of 300 labels among a few clients."""
    name = rng.choice(sorted(_OPTIONS))
    given: dict[str, Any] = {
        "labels": _LABELS.astype(rng.choice(["i8", "u1", "i4", "u8"])),
        "clients": rng.choice([1, 3, 5]),
        "seed": rng.choice([0, 7, 2**40]),
    }
    wrong: list[tuple[Any, ...]] = []
    for option, (good, bad) in _OPTIONS[name].items():
        if rng.random() < 0.5:
            given[option] = rng.choice(good)
            if rng.random() < 0.3:
                given[option] = rng.choice(bad)
                wrong.append((option, str(given[option])))
    if rng.random() < 0.3:
        argument = rng.choice(["clients", "seed", "labels"])
        value: Any = rng.choice(_INTEGERS)
        if argument == "labels":
            value = rng.choice([_LABELS / 2, _LABELS - 5, _LABELS.astype("U3"), 3])
            if name in ("iid", "quantity") and np.ndim(value):
                value = 3  # of whose labels only the number counts
        given[argument] = value
        told = ("labels",) if argument == "labels" else (argument, str(value))
        wrong.append(told)
    call = partial(getattr(fm.partitions, name), **given)
    return Input("partition", call, tuple(wrong))


_X, _Y = np.zeros((6, 2), np.float32), np.arange(6) % 3
_PARTS: tuple[tuple[Any, ...], ...] = (
    ([0, 1, 2, 3, 4, 5], [2, 4]),
    ([5, 4], [1, 1]),
    ([0, 0, 1], [3]),
    ([0.0, 1.0], [1, 1], "order", "float"),
    ([0, 1], [1.0, 1.0], "size", "float"),
    ([0, 1], [1.5, 0.5], "size", "float"),
    ([0, 6], [1, 1], "order", "6"),
    ([-1, 0], [1, 1], "order", "-1"),
    ([0, 1], [1, 2], "size", "3"),
    ([0, 1], [2, 0], "example", "client 1"),
    ([], [], "order"),
    ([["0"]], [1], "order"),
    (["a", "b"], [1, 1], "order"),
    ([True, False], [1, 1], "order", "bool"),
)
_VALUES: tuple[tuple[Any, ...], ...] = (
    (_X, _Y),
    (_X.astype("f8"), _Y.astype("u1")),
    (_X, _Y[:5], "x", "5"),
    (_X + np.nan, _Y, "x", "NaN"),
    (_X.astype("f8") + 1e39, _Y, "x", "float32"),
    (_X, _Y + 2**40, "y", "int32"),
    (_X.astype("i8") + 2**33, _Y, "x", "int32"),
    (_X[:0], _Y[:0], "example"),
    (3.0, _Y, "x"),
)


def federate(rng: random.Random) -> Input:
    """Arrays and positions as clients would see them."""
    if rng.random() < 0.6:
        order, size, *told = rng.choice(_PARTS)
        parts = fm.partitions.Partition(np.array(order), np.array(size))
        return Input("federate", lambda: fm.federate(_X, _Y, parts), _one(told))
    x, y, *told = rng.choice(_VALUES)
    return Input("federate", lambda: fm.federate(x, y), _one(told))


def _one(told: list[Any]) -> tuple[tuple[Any, ...], ...]:
    return (tuple(told),) if told else ()


def frame(rng: random.Random) -> Input:
    """A pandas frame with a column changed, or another argument."""
    import pandas as pd

    rows = pd.DataFrame(
        {"a": np.arange(20.0), "b": range(20), "who": list("vwxyz") * 4}
    )
    rows["kind"] = ["cat", "dog"] * 10
    given: dict[str, Any] = {"label": "kind", "client": "who"}
    change, told = rng.choice(_FRAMES)
    if callable(change):
        rows = change(rows)
    else:
        given |= change
    call = partial(fm.from_frame, rows, **given)
    return Input("frame", call, (told,) if told else ())


def _set(column: str, value: Any) -> Any:
    def change(rows: Any) -> Any:
        rows[column] = rows[column].astype(object)
        rows.loc[3, column] = value
        return rows

    return change


_FRAMES: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    ({}, ()),
    ({"client": None, "features": ["a", "b"]}, ()),
    ({"test": 0.5, "seed": 3}, ()),
    ({"features": ["a"]}, ()),
    ({"label": "b"}, ("features", "kind")),
    ({"label": "no"}, ("no",)),
    ({"client": "no"}, ("no",)),
    ({"features": []}, ("features",)),
    ({"features": ["kind"]}, ("features", "kind")),
    ({"features": ["no"]}, ("no",)),
    ({"test": 0.0}, ("test", "0.0")),
    ({"test": 1.0}, ("test", "1.0")),
    ({"test": -0.5}, ("test", "-0.5")),
    ({"test": float("nan")}, ("test", "nan")),
    ({"test": "half"}, ("test", "half")),
    ({"seed": -1}, ("seed", "-1")),
    ({"seed": 1.5}, ("seed", "1.5")),
    ({"seed": "a"}, ("seed", "a")),
    (lambda rows: rows.assign(a=np.nan), ("x_train", "NaN")),
    (lambda rows: rows.assign(a=1e39), ("x_train", ("infinite", "float32"))),
    (lambda rows: rows.assign(a="text"), ("features", "a")),
    (_set("kind", None), ("label", "kind")),
    (_set("who", None), ("client", "who")),
    (lambda rows: rows[:1], ("test", "1")),
    (lambda rows: rows[:0], ("test", "0")),
    (lambda rows: rows.rename(columns={"a": "b"}), ("columns", "b")),
)
