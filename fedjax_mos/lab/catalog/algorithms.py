"""Algorithms by name."""

from fedjax_mos import algorithms
from fedjax_mos.lab.catalog.entry import Entry
from fedjax_mos.lab.catalog.tuned import with_tuned


def _ams(uplink: str, downlink: str = "identity") -> Entry:
    """A recipe: FedAMS's server behind these channels."""
    return Entry(algorithms.fedams, uplink=uplink, downlink=downlink)


_ENTRIES: dict[str, Entry] = {
    "fedavg": Entry(algorithms.fedavg),
    "fedprox": Entry(algorithms.fedprox),
    # As FedMoS's text and program have it: mu (y - x) without the learning rate.
    "fedprox_fedmos": Entry(
        algorithms.fedmos_release, {"storm": 1.0, "server_momentum": 0.0}
    ),
    "fedavgm": Entry(algorithms.fedavgm),
    "fedopt": Entry(algorithms.fedopt),
    "slowmo": Entry(algorithms.slowmo),
    "fedadagrad": Entry(algorithms.fedadagrad),
    "fedadam": Entry(algorithms.fedadam),
    "fedyogi": Entry(algorithms.fedyogi),
    "fedams": Entry(algorithms.fedams),
    "fedams_option2": Entry(algorithms.fedams, {"option": 2}),
    "fedams_eps_inside": Entry(algorithms.fedams, {"option": 2, "eps_inside": True}),
    "fedams_release": Entry(algorithms.fedams, {"bias_correction": True}),
    "scaffold": Entry(algorithms.scaffold),
    "scaffold_option1": Entry(algorithms.scaffold, {"option": 1}),
    "feddyn": Entry(algorithms.feddyn),
    "feddc": Entry(algorithms.feddc),
    "fedcm": Entry(algorithms.fedcm, sends_move=False),
    "fedcm_decay_inside": Entry(
        algorithms.fedcm, {"decay_inside": True}, sends_move=False
    ),
    "mime": Entry(algorithms.mime),
    "mimelite": Entry(algorithms.mimelite),
    "stem": Entry(algorithms.stem),
    "fedglomo": Entry(algorithms.fedglomo, sends_move=False),
    "fedlomo": Entry(algorithms.fedlomo, sends_move=False),
    "fedmos": Entry(algorithms.fedmos),
    "fedmos_release": Entry(algorithms.fedmos_release),
    "fedacg": Entry(algorithms.fedacg, sends_move=False),
    "moon": Entry(algorithms.moon),
    "fedmlb": Entry(algorithms.fedmlb),
    "fedlc": Entry(algorithms.fedlc),
    "fedntd": Entry(algorithms.fedntd),
    "feddecorr": Entry(algorithms.feddecorr),
    "moon_acg": Entry(algorithms.moon_acg, sends_move=False),
    "fedmlb_acg": Entry(algorithms.fedmlb_acg, sends_move=False),
    "fedlc_acg": Entry(algorithms.fedlc_acg, sends_move=False),
    "fedntd_acg": Entry(algorithms.fedntd_acg, sends_move=False),
    "feddecorr_acg": Entry(algorithms.feddecorr_acg, sends_move=False),
    # The paper prints the denominator without the true class.
    "fedlc_literal": Entry(algorithms.fedlc, {"include_true": False}),
    # As in the released program of FedACG.
    "fedntd_release": Entry(algorithms.fedntd, {"ce_weight": 0.7, "weight": 0.3}),
    "lag": Entry(
        algorithms.lag,
        uplink="lag_worker",
        sampler="everyone",
        local_lr=False,
        sends_move=False,
    ),
    "lag_ps": Entry(
        algorithms.lag,
        uplink="lag_contacted",
        sampler="lag_contact",
        local_lr=False,
        sends_move=False,
    ),
    "fedcams": _ams("feedback"),
    "fednlaa": _ams("nla"),
    "fedaa": _ams("aa"),
    "fednlaca": _ams("nla_compressed"),
    "fedaca": _ams("aa_compressed"),
    "fedbnlaca": _ams("nla_compressed", "nla_down"),
    "fedbaca": _ams("aa_compressed", "aa_down"),
}

ALGORITHMS = with_tuned(_ENTRIES)
