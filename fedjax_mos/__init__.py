"""fedjax_mos: federated learning as one pure, jitted function.

Clients are a leading batch axis, a round is `step(data, state, key)`, a training run is
a scan of it, and every float hyperparameter is a leaf of the state.

An `Experiment` puts named or own components together; `run`, `compare`, `sweep`, `tune`
and `hypergrad` take it from there. Below it, `simulation` takes the components
themselves.
"""

from fedjax_mos import (
    algorithms,
    backends,
    channels,
    client,
    data,
    models,
    objectives,
    samplers,
    types,
)
from fedjax_mos._version import __version__
from fedjax_mos.client import losses, plans
from fedjax_mos.client.tools import local_work
from fedjax_mos.components import Spec, cite, spec
from fedjax_mos.data import augment, partitions
from fedjax_mos.data import sources as datasets
from fedjax_mos.data.sources.dataset import arrays
from fedjax_mos.data.sources.frames import from_frame
from fedjax_mos.data.store import federate
from fedjax_mos.engine.evaluation import evaluator, per_client
from fedjax_mos.engine.rollout import rollout
from fedjax_mos.engine.run import run
from fedjax_mos.engine.simulation import simulation
from fedjax_mos.lab.citation import citation
from fedjax_mos.lab.compare import Comparison, compare
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.folders import read
from fedjax_mos.lab.hypergradients.hypergrad import hypergrad
from fedjax_mos.lab.hypergradients.random_baseline import random_baseline
from fedjax_mos.lab.hypergradients.tune import tune
from fedjax_mos.lab.hypergradients.tuned import Tuned
from fedjax_mos.lab.result import Result
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.lab.sweeps.grid import Range
from fedjax_mos.lab.sweeps.sweep import sweep
from fedjax_mos.machine import use_all_cores
from fedjax_mos.schedule import Schedule
from fedjax_mos.types import Algorithm, Exchange

__all__ = [
    "Algorithm",
    "Comparison",
    "Cube",
    "Exchange",
    "Experiment",
    "Range",
    "Result",
    "Schedule",
    "Spec",
    "Tuned",
    "__version__",
    "algorithms",
    "arrays",
    "augment",
    "backends",
    "channels",
    "citation",
    "cite",
    "client",
    "compare",
    "data",
    "datasets",
    "evaluator",
    "federate",
    "from_frame",
    "hypergrad",
    "local_work",
    "losses",
    "models",
    "objectives",
    "partitions",
    "per_client",
    "plans",
    "random_baseline",
    "read",
    "rollout",
    "run",
    "samplers",
    "simulation",
    "spec",
    "sweep",
    "tune",
    "types",
    "use_all_cores",
]
