"""Step sizes of members of a comparison that have none of their own."""

from collections.abc import Mapping
from typing import Any

from fedjax_mos.lab import catalog, options
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.parts import default_parts

_LR = ("algorithm", ("lr",))


def common_lr(member: Experiment, own: Mapping[str, Any]) -> dict[str, Any]:
    """The data set's lr as an option, where neither `own` nor a tuning says one.

    Defaults of papers differ by ten times, which alone would decide a comparison. On
    data for which any method is tuned nothing changes.
    """
    return {"algorithm.lr": member.dataset_defaults.lr} if _is_open(member, own) else {}


def unequal_lr(members: Mapping[str, Experiment]) -> str:
    """A warning, if step sizes that nobody has chosen differ; empty: they do not."""
    rates = {
        name: float(one.parts["algorithm"].spec.hp["lr"])
        for name, one in members.items()
        if isinstance(one.algorithm, str) and _is_open(one, one.options)
    }
    if len(set(rates.values())) < 2:
        return ""
    listed = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
    return (
        "no method is tuned on these data, and the papers' step sizes differ: "
        f'{listed}. options={{"lr": ...}} makes them equal'
    )


def _is_open(member: Experiment, own: Mapping[str, Any]) -> bool:
    """Whether the paper's step size is all that there is to go by."""
    algorithms = catalog.ALGORITHMS.values()
    tuned = any(member.dataset_name in entry.tuned for entry in algorithms)
    parts = default_parts(member)
    known = [name for name in own if options.accepts(name, parts)]
    said = _LR in [options.home(name, parts) for name in known]
    has = _LR in options.all_options(parts)
    local = catalog.ALGORITHMS[str(member.algorithm)].local_lr
    return has and local and not (tuned or said)
