"""One step size for members of a comparison that have none of their own."""

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
    algorithms = catalog.ALGORITHMS.values()
    tuned = any(member.dataset_name in entry.tuned for entry in algorithms)
    parts = default_parts(member)
    known = [name for name in own if options.accepts(name, parts)]
    said = _LR in [options.home(name, parts) for name in known]
    has = _LR in options.all_options(parts)
    local = catalog.ALGORITHMS[str(member.algorithm)].local_lr
    if tuned or said or not has or not local:
        return {}
    return {"algorithm.lr": member.dataset_defaults.lr}
