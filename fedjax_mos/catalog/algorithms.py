"""Algorithms by name, with the numbers of their papers.

Numbers under `tuned` replace the defaults on that data set. For `digits` they come from
the equal-budget grid of benchmarks/digits_grid.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from fedjax_mos import algorithms
from fedjax_mos.algorithms import shaped
from fedjax_mos.catalog import papers
from fedjax_mos.catalog.entry import Entry

# The numbers of the FedMoS release's run.sh; the paper prints none.
_FEDMOS_NUMBERS = {"lr": 0.01, "storm": 0.1, "prox": 0.001, "server_momentum": 0.8}
_FEDMOS_DIGITS = {"lr": 0.3, "storm": 0.9, "prox": 0.001, "server_momentum": 0.7}
# The settings that FedACG's comparison shares, and those of FedCAMS's program.
_SGD = {"lr": 0.1, "server_lr": 1.0}
_ACG = {"lr": 0.1, "server_momentum": 0.85}
_MOMENTS = {"b1": 0.9, "b2": 0.99}
_AMS = {"lr": 0.01, "server_lr": 1.0} | _MOMENTS | {"eps": 1e-3}
_AMS_OPTIONS = {"option": 1, "bias_correction": False}

# Objective, its numbers, reference: FedAvg's server as NAME, FedACG's as NAME_acg.
_SHAPED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "moon": (shaped.moon, {"weight": 1.0, "temperature": 0.5}, papers.MOON),
    "fedmlb": (shaped.fedmlb, {"ce_weight": 1.0, "kl_weight": 1.0}, papers.FEDMLB),
    "fedlc": (shaped.fedlc, {"temperature": 1.0, "include_true": True}, papers.FEDLC),
    "fedntd": (
        shaped.fedntd,
        {"ce_weight": 1.0, "weight": 1.0, "temperature": 1.0},
        papers.FEDNTD,
    ),
    "feddecorr": (shaped.feddecorr, {"weight": 0.01}, papers.FEDDECORR),
}


def _ams(uplink: str, downlink: str = "identity", reference: str = papers.NLA) -> Entry:
    """A recipe: FedAMS's server behind these channels."""
    options = _AMS | _AMS_OPTIONS
    return Entry(
        algorithms.fedams, options, reference, uplink=uplink, downlink=downlink
    )


ALGORITHMS: dict[str, Entry] = {
    "fedavg": Entry(
        algorithms.fedavg,
        {"lr": 0.01, "server_lr": 1.0},
        papers.FEDAVG,
        tuned={"digits": {"lr": 0.35, "server_lr": 1.25}},
    ),
    "fedprox": Entry(algorithms.fedprox, _SGD | {"prox": 0.002}, papers.FEDPROX),
    "fedavgm": Entry(algorithms.fedavgm, _SGD | {"server_momentum": 0.4}, papers.HSU),
    "slowmo": Entry(algorithms.slowmo, _SGD | {"server_momentum": 0.5}, papers.SLOWMO),
    "fedadagrad": Entry(
        algorithms.fedadagrad,
        {"lr": 0.1, "server_lr": 0.01, "b1": 0.0, "eps": 1e-3},
        papers.FEDOPT,
    ),
    "fedadam": Entry(
        algorithms.fedadam,
        {"lr": 0.1, "server_lr": 0.01} | _MOMENTS | {"eps": 1e-3},
        papers.FEDOPT,
    ),
    "fedyogi": Entry(
        algorithms.fedyogi,
        {"lr": 0.1, "server_lr": 0.01} | _MOMENTS | {"eps": 1e-3},
        papers.FEDOPT,
    ),
    "fedams": Entry(algorithms.fedams, _AMS | _AMS_OPTIONS, papers.FEDAMS),
    "fedams_option2": Entry(
        algorithms.fedams, _AMS | _AMS_OPTIONS | {"option": 2}, papers.FEDAMS
    ),
    "fedams_release": Entry(
        algorithms.fedams,
        _AMS | _AMS_OPTIONS | {"bias_correction": True},
        f"Released program of {papers.FEDAMS}",
    ),
    "scaffold": Entry(algorithms.scaffold, _SGD | {"option": 2}, papers.SCAFFOLD),
    "scaffold_option1": Entry(
        algorithms.scaffold, _SGD | {"option": 1}, papers.SCAFFOLD
    ),
    "feddyn": Entry(
        algorithms.feddyn,
        {"lr": 0.1, "dyn": 0.1, "scale_by_importance": False},
        papers.FEDDYN,
    ),
    "feddc": Entry(
        algorithms.feddc,
        {"lr": 0.1, "dyn": 0.01, "scale_by_importance": False},
        papers.FEDDC,
    ),
    "fedcm": Entry(
        algorithms.fedcm, _SGD | {"mix": 0.1, "decay_inside": False}, papers.FEDCM
    ),
    "fedcm_decay_inside": Entry(
        algorithms.fedcm, _SGD | {"mix": 0.1, "decay_inside": True}, papers.FEDCM
    ),
    "mime": Entry(algorithms.mime, {"lr": 0.1, "server_momentum": 0.9}, papers.MIME),
    "mimelite": Entry(
        algorithms.mimelite, {"lr": 0.1, "server_momentum": 0.9}, papers.MIME
    ),
    "stem": Entry(
        algorithms.stem, {"lr": 0.1, "storm": 0.1, "own_init": False}, papers.STEM
    ),
    "fedglomo": Entry(algorithms.fedglomo, {"lr": 0.1, "mix": 0.3}, papers.GLOMO),
    "fedlomo": Entry(algorithms.fedlomo, {"lr": 0.1}, papers.GLOMO),
    "fedmos": Entry(
        algorithms.fedmos,
        _FEDMOS_NUMBERS | {"first_batch": "full"},
        papers.FEDMOS,
        tuned={"digits": _FEDMOS_DIGITS},
    ),
    "fedmos_release": Entry(
        algorithms.fedmos_release,
        dict(_FEDMOS_NUMBERS),
        f"Released program of {papers.FEDMOS}",
        tuned={"digits": _FEDMOS_DIGITS},
    ),
    "fedacg": Entry(algorithms.fedacg, _ACG | {"prox": 0.002}, papers.FEDACG),
    **{
        name: Entry(partial(shaped.on_fedavg, objective), _SGD | numbers, paper)
        for name, (objective, numbers, paper) in _SHAPED.items()
    },
    **{
        f"{name}_acg": Entry(
            partial(shaped.on_fedacg, objective),
            _ACG | numbers,
            f"{paper}; {papers.FEDACG}",
        )
        for name, (objective, numbers, paper) in _SHAPED.items()
    },
    "fedlc_literal": Entry(
        partial(shaped.on_fedavg, shaped.fedlc),
        _SGD | {"temperature": 1.0, "include_true": False},
        f"{papers.FEDLC}, as printed",
    ),
    "fedntd_release": Entry(
        partial(shaped.on_fedavg, shaped.fedntd),
        _SGD | {"ce_weight": 0.7, "weight": 0.3, "temperature": 1.0},
        f"{papers.FEDNTD}, as in the released program of {papers.FEDACG}",
    ),
    "lag": Entry(
        algorithms.lag,
        {"lr": 0.001, "horizon": 10},
        f"{papers.LAG} (LAG-WK)",
        uplink="lag_worker",
        sampler="everyone",
    ),
    "lag_ps": Entry(
        algorithms.lag,
        {"lr": 0.001, "horizon": 10},
        f"{papers.LAG} (LAG-PS)",
        uplink="lag_contacted",
        sampler="lag_contact",
    ),
    "fedcams": _ams("feedback", reference=papers.FEDAMS),
    "fednlaa": _ams("nla"),
    "fedaa": _ams("aa"),
    "fednlaca": _ams("nla_compressed"),
    "fedaca": _ams("aa_compressed"),
    "fedbnlaca": _ams("nla_compressed", "nla_down"),
    "fedbaca": _ams("aa_compressed", "aa_down"),
}
