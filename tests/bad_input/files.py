"""Data files and config files with one thing changed, each read by `run`."""

import io
import itertools
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_mos.lab import folders
from fedjax_mos.lab.experiment import Experiment
from tests.bad_input.harness import Input
from tests.bad_input.pools import FIELDS
from tests.bad_input.words import shown

_number = itertools.count()
_FEW = ["--clients", "4", "--cohort", "2", "--rounds", "5", "--model", "logistic"]
Arrays = dict[str, Any]


def new_path(ending: str) -> Path:
    """A name that was never used: populations are kept by name."""
    folder = Path("inputs")
    folder.mkdir(exist_ok=True)
    return folder.resolve() / f"{next(_number)}{ending}"


# ---- csv -----------------------------------------------------------------------------


_ROWS = "client,a,b,label\n" + "".join(
    f"c{n % 4},{n},{n / 7:.3f},{'even' if n % 2 == 0 else 'odd'}\n" for n in range(40)
)
_TABLES: tuple[Callable[[str], str], ...] = (
    lambda t: t,
    lambda t: t.replace("client", "who"),
    lambda t: t.replace("even", "0").replace("odd", "1"),
    lambda t: t.replace("\n", "\r\n"),
    lambda t: t.replace("c1,", '"c, 1",'),
)
# A change, and what a message must name.
_BAD_TABLES: tuple[tuple[Any, ...], ...] = (
    (lambda t: t.replace("label", "y"), "label"),
    (lambda t: t.replace(",3,", ",x,"), "features", "words", "'a'"),
    (lambda t: t.replace(",5,", ",,"), "nan", "row 6", "'a'"),
    (lambda t: t.replace(",5,", ",inf,"), "inf", "row 6", "'a'"),
    (lambda t: t.replace(",5,", ",1e300,"), "float32"),
    (lambda t: t.replace("c3,7,", ",7,"), "client", "1"),
    (lambda t: t.replace("b,label", "split,label"), "split"),
    (lambda t: t.replace("a,b", ",b"), "column"),
    (lambda t: t.replace("even", "0.5").replace("odd", "1.5"), "cross_entropy"),
    (lambda t: t.partition("\n")[0] + "\n", "test"),
    (lambda t: "", "CSV"),
)


def csv(rng: random.Random) -> Input:
    """A CSV file: right, with one thing wrong, or damaged."""
    path = new_path(".csv")
    words = ["run", "--dataset", str(path), "--partition", "iid", *_FEW]
    kind = rng.random()
    if kind < 0.3:
        path.write_text(rng.choice(_TABLES)(_ROWS))
        # A word that is no feature any more.
        told = () if "who" not in path.read_text() else (("features", "who"),)
        return Input("csv", words, told)
    if kind < 0.8:
        change, *told = rng.choice(_BAD_TABLES)
        path.write_text(change(_ROWS))
        return Input("csv", words, (tuple(told),))
    path.write_bytes(damage(rng, _ROWS.encode()))
    return Input("csv, damaged", words, None)


# ---- npz -----------------------------------------------------------------------------


def _arrays(rng: random.Random) -> Arrays:
    draw = np.random.default_rng(rng.getrandbits(32))
    x = draw.integers(0, 256, (60, 4, 4, 1), dtype=np.uint8)
    y = np.arange(60) % 4
    return {"x_train": x[:40], "y_train": y[:40], "x_test": x[40:], "y_test": y[40:]}


def _cast(dtype: Any) -> Callable[[Arrays], Arrays]:
    return lambda a: a | {k: v.astype(dtype) for k, v in a.items() if k[0] == "x"}


def _labels(dtype: Any) -> Callable[[Arrays], Arrays]:
    return lambda a: a | {k: v.astype(dtype) for k, v in a.items() if k[0] == "y"}


def _without(*keys: str) -> Callable[[Arrays], Arrays]:
    return lambda a: {k: v for k, v in a.items() if k not in keys}


def _with(**more: Any) -> Callable[[Arrays], Arrays]:
    return lambda a: a | {k: v(a) if callable(v) else v for k, v in more.items()}


def _at(key: str, value: Any, dtype: Any) -> Callable[[Arrays], Arrays]:
    """One number of an array replaced."""

    def change(a: Arrays) -> Arrays:
        new = a[key].astype(dtype)
        new.flat[7] = value
        other = {k: v.astype(dtype) for k, v in a.items() if k[0] == key[0]}
        return a | other | {key: new}

    return change


_RIGHT: tuple[Callable[[Arrays], Arrays], ...] = (
    lambda a: a,
    *(_cast(t) for t in ("f4", "f8", "f2", "i4", "i8", "?", "u2", ">f4", ">i4")),
    *(_labels(t) for t in ("u1", "i2", "u4", "i8", "u8", ">i8")),
    _with(groups=lambda a: np.arange(40) % 4),
    _with(x_valid=lambda a: a["x_test"], y_valid=lambda a: a["y_test"]),
    _with(other=np.zeros(3), note=np.array("text")),
    lambda a: {k: np.asfortranarray(v) for k, v in a.items()},
    lambda a: a | {k: v.reshape(len(v), -1) for k, v in a.items() if k[0] == "x"},
)
# A change, and what a message must name.
_WRONG: tuple[tuple[Any, ...], ...] = (
    *((_without(k), k) for k in ("x_train", "y_train", "x_test", "y_test")),
    (_with(x_valid=lambda a: a["x_test"]), "x_valid", "y_valid"),
    (_with(y_train=lambda a: a["y_train"][:30]), "y_train", "30"),
    (_with(x_test=lambda a: a["x_test"][:5]), "x_test", "20"),
    (_with(x_test=lambda a: a["x_test"][:, :2]), "x_test", "(2, 4, 1)"),
    (_with(x_test=lambda a: a["x_test"].astype("f4")), "x_test", "float32"),
    (_with(x_train=np.zeros((0, 4, 4, 1), np.uint8), y_train=np.zeros(0, int)), "x_"),
    (_with(x_train=np.uint8(3)), "x_train", "()"),
    (_with(y_train=np.int64(3)), "y_train", "()"),
    (_labels("U3"), "y_train", "U3"),
    (_labels("S3"), "y_train", "S3"),
    (_labels("O"), "objects"),
    (_labels("c8"), "y_train", "complex64"),
    (_labels("f8"), "cross_entropy", "float"),
    (_labels("M8[s]"), "y_train", "datetime"),
    (_cast("U3"), "x_train", "U3"),
    (_cast("c8"), "x_train", "complex64"),
    (_cast("O"), "objects"),
    (_at("y_train", -1, "i8"), "y_train", "example 7", "-1"),
    (_at("y_train", 2**32 + 1, "i8"), "y_train", "example 7"),
    (_at("y_train", 2**63, "u8"), "y_train", "example 7"),
    (_at("y_test", 2**31, "i8"), "y_test", "example 7"),
    (_at("x_train", np.nan, "f4"), "x_train", "NaN"),
    (_at("x_train", np.inf, "f4"), "x_train", "infinite"),
    (_at("x_test", np.nan, "f8"), "x_test", "NaN"),
    (_at("x_train", 1e39, "f8"), "x_train", "float32"),
    (_at("x_train", 2**40, "i8"), "x_train", "int32"),
    (_with(groups=np.arange(39)), "groups", "39"),
    (_with(groups=np.zeros(40)), "groups", "float64"),
    (_with(groups=np.array(["a"] * 40)), "groups", "U1"),
)


def npz(rng: random.Random) -> Input:
    """An npz file: right, with one array wrong, or damaged."""
    path, given = new_path(".npz"), _arrays(rng)
    words = ["run", "--dataset", f"npz:{path}", "--partition", "iid", *_FEW]
    kind = rng.random()
    if kind < 0.3:
        np.savez(path, **rng.choice(_RIGHT)(given))
        return Input("npz", words)
    if kind < 0.7:
        change, *told = rng.choice(_WRONG)
        np.savez(path, **change(given))
        return Input("npz", words, (tuple(told),))
    np.savez(path, **given)
    path.write_bytes(damage(rng, path.read_bytes()))
    return Input("npz, damaged", words, None)


def damage(rng: random.Random, data: bytes) -> bytes:
    """Bytes cut off, changed, put in or replaced by others."""
    at = rng.randrange(len(data))
    some = bytes(rng.getrandbits(8) for _ in range(rng.randint(1, 8)))
    near = rng.randrange(min(len(data), 200))
    return rng.choice(
        [
            data[:at],
            data[:at] + some + data[at + len(some) :],
            data[:near] + some + data[near + len(some) :],
            data[:-near] + some + data[-near:][len(some) :],
            data[:at] + some + data[at:],
            some,
            b"",
            data.replace(b"(40,", b"(41,"),
            data.replace(b"(40,", b"(4099999999,"),
            data.replace(b"|u1", b"|O "),
        ]
    )


def archive(rng: random.Random) -> Input:
    """An archive of a known data set that is damaged, or holds something else."""
    folder = new_path("")
    (folder / "mnist").mkdir(parents=True)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("train-images-idx3-ubyte", b"\0\0\x08\x03" + bytes(12))
    name, data = rng.choice(
        [
            ("mnist.npz", held.getvalue()),
            ("mnist/train-images-idx3-ubyte", b"\0\0\x08\x03\xff\xff\xff\xff" * 2),
            ("mnist/train-images-idx3-ubyte.gz", b"\x1f\x8b\x08" + bytes(20)),
            ("mnist/train-images-idx3-ubyte", b""),
        ]
    )
    (folder / name).write_bytes(damage(rng, data) if data else data)
    words = ["run", "--dataset", "mnist", "--data-dir", str(folder), *_FEW]
    return Input("archive", words, ((str(folder),), ("data_dir",)))


# ---- image folders -------------------------------------------------------------------


def images(rng: random.Random) -> Input:
    """Folders of small images, with a file that is none or is of another kind."""
    from PIL import Image

    root = new_path("")
    for part, number in (("train", 6), ("test", 2)):
        for label in ("cat", "dog"):
            folder = root / part / label
            folder.mkdir(parents=True)
            for i in range(number):
                pixels = np.full((4, 4), rng.getrandbits(8), np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    bad = root / rng.choice(["train", "test"]) / "cat" / "1.png"
    words = ["run", "--dataset", f"folder:{root}", "--partition", "iid", *_FEW]
    kind = rng.randrange(7)
    if kind == 0:
        return Input("images", words)
    if kind == 1:
        Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(bad)
        return Input("images", words, (("8 bits", bad.name),))
    if kind == 2:
        Image.fromarray(np.zeros((5, 4), np.uint8)).save(bad)
        return Input("images", words, (("4 x 4", "5 x 4", bad.name),))
    if kind == 3:
        data = bytearray(bad.read_bytes())
        data[16:24] = rng.choice([40_000, 10_000, 2**31 - 1]).to_bytes(4, "big") * 2
        bad.write_bytes(data)
        return Input("images", words, (("image", bad.name), ("pixels", bad.name)))
    if kind == 4:
        bad.write_bytes(b"no image")
        return Input("images", words, (("readable image", bad.name),))
    if kind == 5:
        (root / "test" / "cow").mkdir()
        bad.replace(root / "test" / "cow" / "1.png")
        return Input("images", words, (("cow",),))
    bad.write_bytes(damage(rng, bad.read_bytes()))
    return Input("images, damaged", words, None)


# ---- config files --------------------------------------------------------------------

_BASE = Experiment(clients=20, cohort=5, rounds=5, model="logistic")
_TYPES = ("x", [1], {"a": 1}, True, 1.5, [], {}, "")


def config(rng: random.Random) -> Input:
    """The config.json of a run with one entry changed, or damaged."""
    path = new_path(".json")
    stored = json.loads(json.dumps(folders.config(_BASE, "run", seeds=2), default=str))
    words = ["run", "--config", str(path)]
    kind = rng.random()
    if kind < 0.25:
        name = rng.choice(["rounds", "batch_size", "eval_every", "seed", "steps"])
        text = rng.choice(FIELDS[name].good)
        if name == "seed":
            text = "7"
        stored["experiment"][name] = int(text)
        path.write_text(json.dumps(stored))

        def check(found: list[Experiment]) -> None:
            assert getattr(found[0], name) == int(text), name

        return Input("config", words, (), check)
    if kind < 0.7:
        name = rng.choice([n for n in FIELDS if n not in ("dataset", "diagnostics")])
        value = wrong_value(rng, name)
        stored["experiment"][name] = value
        path.write_text(json.dumps(stored))
        told = (repr(value), str(value), *shown(str(value)))
        told += (f"({len(value)},)",) if isinstance(value, list) else ()
        return Input("config", words, ((name, told),))
    if kind < 0.85:
        value = rng.choice([0, -1, "2", 1.5, [], True, 2**31])
        stored["seeds"] = value
        path.write_text(json.dumps(stored))
        return Input("config", words, (("seeds", (str(value), f"{value!r}")),))
    text = json.dumps(stored, indent=1)
    path.write_bytes(damage(rng, rng.choice([text, "[" * 10**5, "1", "[]"]).encode()))
    return Input("config, damaged", words, None)


def wrong_value(rng: random.Random, name: str) -> Any:
    """What the field cannot be: of another type, or out of its range."""
    pool = FIELDS[name]
    if pool.read is str:
        return rng.choice([*(t for t in pool.bad if t), 5, 1.5, True, [1]])
    numbers = [t for t in pool.bad if t.lstrip("-").isdigit()]
    out = [int(t) for t in numbers]
    types = [v for v in _TYPES if not (pool.read is float and v in (1.5, True))]
    return rng.choice([*out, *types])
