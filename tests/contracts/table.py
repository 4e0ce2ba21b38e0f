"""What the contract tests know about every algorithm of the catalog.

A new algorithm costs one row: its numbers on the toy problem, the numbers (and fixed
options) under which it is FedAvg, and how many parameter-sized trees it sends and
keeps. Its factory, fixed options, channels and sampler come from the catalog.
"""

from typing import Any, NamedTuple

import optax

import fedjax_mos as fm
from fedjax_mos.lab import catalog


class Row(NamedTuple):
    hp: dict[str, float]  # the algorithm's numbers
    neutral: dict[str, Any] | None = None  # makes it FedAvg; None: nothing does
    trees_up: int | None = 1  # None: compressed, counted in tests/channels/test_bits.py
    trees_down: int | None = 1
    trees_client: int = 0
    numbers_up: int = 0  # single numbers besides the trees
    numbers_down: int = 0
    first_up: int | None = None  # trees of round 0, where they are others
    first_down: int | None = None
    uplink: dict[str, Any] = {}  # options of the catalog's channels and sampler
    downlink: dict[str, Any] = {}
    sampler: dict[str, Any] = {}
    plans: tuple[str, ...] = ("steps", "epochs")  # for which `neutral` holds
    of: str = ""  # for a variant: the name in the catalog
    options: dict[str, Any] = {}  # for a variant: what else is different


MOS = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
NEUTRAL_MOS = {"storm": 1.0, "prox": 0.0, "server_momentum": 0.0}
MINIBATCH_MOS = NEUTRAL_MOS | {"first_batch": "step"}
SGD = {"lr": 0.3, "server_lr": 0.9}
MOMENTS = {"lr": 0.3, "server_lr": 0.1, "b1": 0.8, "b2": 0.9, "eps": 0.1}
AVERAGE = {"server_lr": 1.0}
STILL = {"server_momentum": 0.0}
BOTH_WAYS = {"trees_up": 2, "trees_down": 2}
SCAFFOLD = Row(SGD, **BOTH_WAYS, trees_client=1)
FEDCM = Row(
    SGD | {"mix": 0.3},
    AVERAGE | {"mix": 1.0},
    trees_down=2,
    numbers_up=1,
    plans=("steps",),  # unequal steps: a mean of normalised directions
)
# Zeros do not travel: round 0 has no direction yet, and without own_init no move.
STEM = Row({"lr": 0.3, "storm": 0.2}, **BOTH_WAYS, first_up=1, first_down=1)
CONTRAST = {"weight": 0.7, "temperature": 0.5}
BRANCHES = {"ce_weight": 0.6, "kl_weight": 0.4}
NO_BRANCHES = {"ce_weight": 0.0, "kl_weight": 0.0}
DISTIL = {"ce_weight": 0.7, "weight": 0.3, "temperature": 1.5}
NO_DISTIL = {"ce_weight": 1.0, "weight": 0.0}
LC, DECORR, UNWEIGHTED = {"temperature": 0.8}, {"weight": 0.3}, {"weight": 0.0}
ACG = {"lr": 0.3, "server_momentum": 0.5}
LAG = Row({"lr": 0.05}, trees_up=None, trees_client=1, numbers_down=1)
RULED = {"fraction": 0.5, "kappa": 1.2}
RULED_DOWN = {"fraction": 0.5, "kappa": 0.05}


def ams(trees_client, **channels):
    """FedAMS's server behind channels that compress."""
    return Row(
        MOMENTS, trees_up=None, trees_down=None, trees_client=trees_client, **channels
    )


ROWS = {
    "fedavg": Row(SGD, AVERAGE),
    "fedprox": Row(SGD | {"prox": 0.1}, AVERAGE | {"prox": 0.0}),
    "fedprox_fedmos": Row({"lr": 0.3, "prox": 0.05}, {"prox": 0.0}),
    "fedavgm": Row(SGD | {"server_momentum": 0.5}, AVERAGE | STILL),
    "fedopt": Row({"lr": 0.3}, {}),
    "slowmo": Row(SGD | {"server_momentum": 0.5}, AVERAGE | STILL),
    "fedadagrad": Row({k: v for k, v in MOMENTS.items() if k != "b2"}),
    "fedadam": Row(MOMENTS),
    "fedyogi": Row(MOMENTS),
    "fedams": Row(MOMENTS),
    "fedams_option2": Row(MOMENTS),
    "fedams_eps_inside": Row(MOMENTS),
    "fedams_release": Row(MOMENTS),
    "scaffold": SCAFFOLD,
    "scaffold_option1": SCAFFOLD,
    "feddyn": Row({"lr": 0.3, "dyn": 0.2}, trees_client=1),
    "feddc": Row({"lr": 0.3, "dyn": 0.2}, **BOTH_WAYS, trees_client=2),
    "fedcm": FEDCM,
    "fedcm_decay_inside": FEDCM,
    "mime": Row({"lr": 0.3, "server_momentum": 0.4}, trees_up=2, trees_down=3),
    "mimelite": Row({"lr": 0.3, "server_momentum": 0.4}, STILL, **BOTH_WAYS),
    "stem": STEM,
    "fedglomo": Row({"lr": 0.3, "mix": 0.4}, **BOTH_WAYS),
    "fedlomo": Row({"lr": 0.3}),
    "fedmos": Row(MOS, MINIBATCH_MOS),
    "fedmos_release": Row(MOS, NEUTRAL_MOS),
    "fedacg": Row(ACG | {"prox": 0.1}, STILL | {"prox": 0.0}),
    "moon": Row(SGD | CONTRAST, AVERAGE | UNWEIGHTED, trees_client=1),
    "fedmlb": Row(SGD | BRANCHES, AVERAGE | NO_BRANCHES),
    "fedlc": Row(SGD | LC),
    "fedntd": Row(SGD | DISTIL, AVERAGE | NO_DISTIL),
    "feddecorr": Row(SGD | DECORR, AVERAGE | UNWEIGHTED),
    "moon_acg": Row(ACG | CONTRAST, STILL | UNWEIGHTED, trees_client=1),
    "fedmlb_acg": Row(ACG | BRANCHES, STILL | NO_BRANCHES),
    "fedlc_acg": Row(ACG | LC),
    "fedntd_acg": Row(ACG | DISTIL, STILL | NO_DISTIL),
    "feddecorr_acg": Row(ACG | DECORR, STILL | UNWEIGHTED),
    "fedlc_literal": Row(SGD | LC),
    "fedntd_release": Row(SGD | {"temperature": 1.5}, AVERAGE | NO_DISTIL),
    "lag": LAG,
    "lag_ps": LAG._replace(trees_up=1, sampler={"smoothness": 3.0}),
    "fedcams": ams(1, uplink={"fraction": 0.5}),
    "fednlaa": ams(1, uplink={"kappa": 0.8}),
    "fedaa": ams(1, uplink={"kappa": 0.8}),
    "fednlaca": ams(2, uplink=RULED),
    "fedaca": ams(2, uplink=RULED),
    "fedbnlaca": ams(3, uplink=RULED, downlink=RULED_DOWN),
    "fedbaca": ams(3, uplink=RULED, downlink=RULED_DOWN),
}

# Options that are no name of their own but change what is computed or sent.
VARIANTS = {
    "fedmos-large": Row(MOS, MINIBATCH_MOS, of="fedmos", options={"first_batch": 4}),
    "stem-own_init": STEM._replace(of="stem", options={"own_init": True}, first_up=2),
    "fedopt-momentum": Row(
        {"lr": 0.3},
        trees_client=1,
        of="fedopt",
        options={
            "client_optimizer": fm.spec(optax.sgd, learning_rate=0.3, momentum=0.5),
            "client_state": "kept",
        },
    ),
}

ALGORITHMS = ROWS | VARIANTS

# One of each kind: two gradients, client state, two exchanges, terms, both channels.
KINDS = ("fedavg", "fedmos", "scaffold", "mime", "moon", "fedbnlaca")

PLANS = {"steps": fm.plans.with_replacement(3, 4), "epochs": fm.plans.epochs(1, 4)}

BACKENDS = {
    "vmapped": lambda: fm.backends.vmapped(),
    "chunked": lambda: fm.backends.chunked(2),
    "sharded one by one": lambda: fm.backends.sharded(inner=fm.backends.chunked(1)),
    "one by one": lambda: fm.backends.chunked(1),
    "rematerialised": lambda: fm.backends.chunked(2, remat=True),
    "sharded": lambda: fm.backends.sharded(),
}


def entry_of(name):
    """The catalog's entry of a row."""
    return catalog.ALGORITHMS[ALGORITHMS[name].of or name]


def spec_of(name, neutral=False):
    """The row's algorithm with its numbers, or with those that make it FedAvg."""
    row, entry = ALGORITHMS[name], entry_of(name)
    off = (row.neutral or {}) if neutral else {}
    return fm.spec(entry.factory, **entry.options | row.hp | row.options | off)


def channels_of(name):
    """The catalog's channels with the row's options."""
    row, entry = ALGORITHMS[name], entry_of(name)
    return {
        "uplink": catalog.CHANNELS[entry.uplink].spec().replace(**row.uplink),
        "downlink": catalog.CHANNELS[entry.downlink].spec().replace(**row.downlink),
    }


def sampler_of(name):
    """The catalog's sampler, or ACS for an algorithm that takes any."""
    entry = catalog.SAMPLERS[entry_of(name).sampler or "acs"]
    return entry.spec().replace(**ALGORITHMS[name].sampler)
