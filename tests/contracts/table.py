"""The one list of components that the contract tests run over.

A new algorithm costs one row: its numbers, the numbers (and fixed options) under which
it is FedAvg, and how many parameter-sized trees it sends and keeps.
"""

from typing import Any, NamedTuple

import fedjax_mos as fm


class Row(NamedTuple):
    factory: Any
    hp: dict[str, float]
    neutral: dict[str, Any] | None  # reduces the method to FedAvg; None: nothing does
    trees_up: int
    trees_down: int
    trees_client: int
    options: dict[str, Any] = {}
    piecewise: tuple[str, ...] = ()  # numbers without a useful derivative


MOS = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
NEUTRAL_MOS = {"storm": 1.0, "prox": 0.0, "server_momentum": 0.0}

ALGORITHMS = {
    "fedavg": Row(
        fm.fedavg, {"lr": 0.3, "server_lr": 0.9}, {"server_lr": 1.0}, 1, 1, 0
    ),
    "fedmos": Row(fm.fedmos, MOS, NEUTRAL_MOS | {"first_batch": "step"}, 1, 1, 0),
    "fedmos-large": Row(
        fm.fedmos,
        MOS,
        NEUTRAL_MOS | {"first_batch": "step"},
        1,
        1,
        0,
        options={"first_batch": 4},
    ),
    "fedmos_release": Row(fm.fedmos_release, MOS, NEUTRAL_MOS, 1, 1, 0),
}

SAMPLERS = {
    "ucs": lambda cohort: fm.uniform(cohort),
    "ucs-mean": lambda cohort: fm.uniform(cohort, "mean"),
    "ucs-share": lambda cohort: fm.uniform(cohort, "share"),
    "md": lambda cohort: fm.multinomial(cohort),
    "acs": lambda cohort: fm.adaptive(cohort),
}

PLANS = {"steps": fm.with_replacement(3, 4), "epochs": fm.epochs(1, 4)}

# The first three run always, the full cross product when slow tests do.
BACKENDS = {
    "vmapped": lambda: fm.vmapped(),
    "chunked": lambda: fm.chunked(2),
    "sharded one by one": lambda: fm.sharded(inner=fm.chunked(1)),
    "one by one": lambda: fm.chunked(1),
    "rematerialised": lambda: fm.chunked(2, remat=True),
    "sharded": lambda: fm.sharded(),
}
ALWAYS = ("vmapped", "chunked", "sharded one by one")
