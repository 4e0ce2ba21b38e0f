"""Where the clients' rows of a run that is resumed are: where they were."""

import dataclasses
from typing import TYPE_CHECKING

from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.row_store import are_versions

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


def as_resumed(
    experiment: "Experiment", checkpoints: Checkpoints | None
) -> "Experiment":
    """With rows where the latest checkpoint has them; `auto` decides only once.

    What fits may be another matter now: on another machine, or under another limit.
    """
    if checkpoints is None or experiment.rows != "auto":
        return experiment
    if not (shapes := checkpoints.shapes()):
        return experiment
    rows = "disk" if are_versions(shapes) else "memory"
    return dataclasses.replace(experiment, rows=rows)
