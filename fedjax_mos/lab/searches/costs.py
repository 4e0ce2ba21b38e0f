"""What rounds cost: themselves, gradients of single examples, or bits."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.gradient_count import examples_per_round
from fedjax_mos.lab.sweeps.lanes import Lane, groups_of

Unit = Literal["rounds", "gradients", "bits"]


def costs_of(lanes: Sequence[Lane], unit: Unit) -> list[float]:
    """What a round of every configuration costs, over all its seeds.

    Configurations of one program are taken to cost the same, as their first one does.
    """
    if unit not in get_args(Unit):
        raise ValueError(
            f"unit must be one of {', '.join(get_args(Unit))}: got {unit!r}"
        )
    total: dict[int, float] = {}
    for group in groups_of(lanes):
        one = _per_round(lanes[group[0]].experiment, unit)
        for lane in group:
            number = lanes[lane].label["configuration"]
            total[number] = total.get(number, 0.0) + one
    return [total[number] for number in sorted(total)]


def _per_round(experiment: Experiment, unit: Unit) -> float:
    if unit == "rounds":
        return 1.0
    if unit == "gradients":
        return examples_per_round(experiment)
    # Those of a first round: what messages cost is known when they have been sent.
    made = experiment.build()
    start = made.begin(np.int32(experiment.seed))
    _, frame = made.run(*start, 1, progress=False)
    return float(frame["bits_up"].iloc[-1] + frame["bits_down"].iloc[-1])
