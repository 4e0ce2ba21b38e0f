"""One client's local work: tools, plans of minibatches, losses."""

from fedjax_mos.client import losses, plans
from fedjax_mos.client.tools import (
    large_batch,
    local_scan,
    local_work,
    num_steps,
    step_at,
    tail,
    walk,
)

__all__ = [
    "large_batch",
    "local_scan",
    "local_work",
    "losses",
    "num_steps",
    "plans",
    "step_at",
    "tail",
    "walk",
]
