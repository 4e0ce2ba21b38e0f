"""The one list of components that the contract tests run over.

A new algorithm costs one row: its numbers, the numbers (and fixed options) under which
it is FedAvg, and how many parameter-sized trees it sends and keeps.
"""

from functools import partial
from typing import Any, NamedTuple

import fedjax_mos as fm
from fedjax_mos.channels import recipes
from fedjax_mos.objectives import methods as shaped
from fedjax_mos.channels import lag_worker


class Row(NamedTuple):
    factory: Any
    hp: dict[str, float]
    neutral: dict[str, Any] | None = None  # makes it FedAvg; None: nothing does
    trees_up: int | None = 1  # None: compressed, counted in tests/channels/test_bits.py
    trees_down: int | None = 1
    trees_client: int = 0
    numbers_up: int = 0  # single numbers besides the trees
    numbers_down: int = 0
    options: dict[str, Any] = {}
    piecewise: tuple[str, ...] = ()  # numbers without a useful derivative
    plans: tuple[str, ...] = ("steps", "epochs")  # for which `neutral` holds
    uplink: Any = None
    downlink: Any = None


MOS = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
NEUTRAL_MOS = {"storm": 1.0, "prox": 0.0, "server_momentum": 0.0}
SGD = {"lr": 0.3, "server_lr": 0.9}
MOMENTS = {"lr": 0.3, "server_lr": 0.1, "b1": 0.8, "b2": 0.9, "eps": 0.1}
AVERAGE = {"server_lr": 1.0}
STILL = {"server_momentum": 0.0}

SHAPED = {
    "moon": (shaped.moon, {"weight": 0.7, "temperature": 0.5}, {"weight": 0.0}, 1),
    "fedmlb": (
        shaped.fedmlb,
        {"ce_weight": 0.6, "kl_weight": 0.4},
        {"ce_weight": 0.0, "kl_weight": 0.0},
        0,
    ),
    "fedlc": (shaped.fedlc, {"temperature": 0.8}, None, 0),
    "fedntd": (
        shaped.fedntd,
        {"ce_weight": 0.7, "weight": 0.3, "temperature": 1.5},
        {"ce_weight": 1.0, "weight": 0.0},
        0,
    ),
    "feddecorr": (shaped.feddecorr, {"weight": 0.3}, {"weight": 0.0}, 0),
}


def shaped_rows(suffix, factory, hp, neutral):
    for name, (objective, numbers, off, kept) in SHAPED.items():
        yield (
            name + suffix,
            Row(
                partial(factory, objective),
                hp | numbers,
                None if off is None else neutral | off,
                trees_client=kept,
            ),
        )


def ams(**channels):
    return Row(fm.fedams, MOMENTS, trees_up=None, trees_down=None, **channels)


RULED = {"fraction": 0.5, "kappa": 1.2}

ALGORITHMS = {
    "fedavg": Row(fm.fedavg, SGD, AVERAGE),
    "fedprox": Row(fm.fedprox, SGD | {"prox": 0.1}, AVERAGE | {"prox": 0.0}),
    "fedavgm": Row(fm.fedavgm, SGD | {"server_momentum": 0.5}, AVERAGE | STILL),
    "slowmo": Row(fm.slowmo, SGD | {"server_momentum": 0.5}, AVERAGE | STILL),
    "fedadagrad": Row(fm.fedadagrad, {k: v for k, v in MOMENTS.items() if k != "b2"}),
    "fedadam": Row(fm.fedadam, MOMENTS),
    "fedyogi": Row(fm.fedyogi, MOMENTS),
    "fedams": Row(fm.fedams, MOMENTS),
    "fedams_option2": Row(fm.fedams, MOMENTS, options={"option": 2}),
    "fedams_release": Row(fm.fedams, MOMENTS, options={"bias_correction": True}),
    "scaffold": Row(fm.scaffold, SGD, trees_up=2, trees_down=2, trees_client=1),
    "scaffold_option1": Row(
        fm.scaffold,
        SGD,
        trees_up=2,
        trees_down=2,
        trees_client=1,
        options={"option": 1},
    ),
    "feddyn": Row(fm.feddyn, {"lr": 0.3, "dyn": 0.2}, trees_client=1),
    "feddc": Row(
        fm.feddc, {"lr": 0.3, "dyn": 0.2}, trees_up=2, trees_down=2, trees_client=2
    ),
    "fedcm": Row(
        fm.fedcm,
        SGD | {"mix": 0.3},
        AVERAGE | {"mix": 1.0},
        trees_down=2,
        numbers_up=1,
        plans=("steps",),  # unequal steps: a mean of normalised directions
    ),
    "mime": Row(fm.mime, {"lr": 0.3, "server_momentum": 0.4}, trees_up=2, trees_down=3),
    "mimelite": Row(
        fm.mimelite,
        {"lr": 0.3, "server_momentum": 0.4},
        STILL,
        trees_up=2,
        trees_down=2,
    ),
    "stem": Row(fm.stem, {"lr": 0.3, "storm": 0.2}, trees_up=2, trees_down=2),
    "stem_own_init": Row(
        fm.stem,
        {"lr": 0.3, "storm": 0.2},
        trees_up=2,
        trees_down=2,
        options={"own_init": True},
    ),
    "fedglomo": Row(fm.fedglomo, {"lr": 0.3, "mix": 0.4}, trees_up=2, trees_down=2),
    "fedlomo": Row(fm.fedlomo, {"lr": 0.3}),
    "fedmos": Row(fm.fedmos, MOS, NEUTRAL_MOS | {"first_batch": "step"}),
    "fedmos-large": Row(
        fm.fedmos,
        MOS,
        NEUTRAL_MOS | {"first_batch": "step"},
        options={"first_batch": 4},
    ),
    "fedmos_release": Row(fm.fedmos_release, MOS, NEUTRAL_MOS),
    "fedacg": Row(
        fm.fedacg,
        {"lr": 0.3, "prox": 0.1, "server_momentum": 0.5},
        STILL | {"prox": 0.0},
    ),
    **dict(shaped_rows("", shaped.on_fedavg, SGD, AVERAGE)),
    **dict(
        shaped_rows(
            "_acg", shaped.on_fedacg, {"lr": 0.3, "server_momentum": 0.5}, STILL
        )
    ),
    "lag": Row(
        fm.lag,
        {"lr": 0.05},
        trees_up=None,
        trees_client=1,
        numbers_down=1,
        uplink=lag_worker(),
    ),
    "fedcams": ams(uplink=recipes.with_feedback(fraction=0.5), trees_client=1),
    "fednlaa": ams(uplink=fm.spec(recipes.nla, kappa=0.8), trees_client=1),
    "fedaa": ams(uplink=fm.spec(recipes.aa, kappa=0.8), trees_client=1),
    "fednlaca": ams(uplink=fm.spec(recipes.nla_compressed, **RULED), trees_client=2),
    "fedaca": ams(uplink=fm.spec(recipes.aa_compressed, **RULED), trees_client=2),
    "fedbnlaca": ams(
        uplink=fm.spec(recipes.nla_compressed, **RULED),
        downlink=fm.spec(recipes.nla_down, fraction=0.5, kappa=0.05),
        trees_client=3,
    ),
    "fedbaca": ams(
        uplink=fm.spec(recipes.aa_compressed, **RULED),
        downlink=fm.spec(recipes.aa_down, fraction=0.5, kappa=0.05),
        trees_client=3,
    ),
}

# One of each kind: two gradients, client state, two exchanges, terms, both channels.
KINDS = ("fedavg", "fedmos", "scaffold", "mime", "moon", "fedbnlaca")

PLANS = {"steps": fm.with_replacement(3, 4), "epochs": fm.epochs(1, 4)}

BACKENDS = {
    "vmapped": lambda: fm.vmapped(),
    "chunked": lambda: fm.chunked(2),
    "sharded one by one": lambda: fm.sharded(inner=fm.chunked(1)),
    "one by one": lambda: fm.chunked(1),
    "rematerialised": lambda: fm.chunked(2, remat=True),
    "sharded": lambda: fm.sharded(),
}
