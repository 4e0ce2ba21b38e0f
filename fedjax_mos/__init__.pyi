from . import (
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
from .client import losses, plans
from .client.tools import local_work
from .components import Spec, cite, spec
from .data import augment, datasets, partitions
from .data.generated import generated
from .data.sources.dataset import arrays
from .data.sources.frames import from_frame
from .data.store import federate
from .engine.cohorts import report_cohort, split_cohorts
from .engine.evaluation import evaluator, per_client
from .engine.rollout import rollout
from .engine.run import run
from .engine.simulation import simulation
from .lab.citation import citation
from .lab.compare import Comparison, compare
from .lab.experiment import Experiment
from .lab.folders import read
from .lab.hypergradients.hypergrad import hypergrad
from .lab.hypergradients.random_baseline import random_baseline
from .lab.hypergradients.tune import tune
from .lab.hypergradients.tuned import Tuned
from .lab.papers.reproduce import reproduce
from .lab.papers.reproduced import Reproduced
from .lab.result import Result
from .lab.resume import resume
from .lab.searches.found import Search
from .lab.searches.optuna_study import optuna_study
from .lab.searches.search import search
from .lab.selection import Selection, selection
from .lab.sweeps.cube import Cube
from .lab.sweeps.grid import Range
from .lab.sweeps.sweep import sweep
from .machine import use_all_cores
from .schedule import Schedule
from .types import Algorithm, Exchange

__version__: str

__all__ = [
    "Algorithm",
    "Comparison",
    "Cube",
    "Exchange",
    "Experiment",
    "Range",
    "Reproduced",
    "Result",
    "Schedule",
    "Search",
    "Selection",
    "Spec",
    "Tuned",
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
    "generated",
    "hypergrad",
    "local_work",
    "losses",
    "models",
    "objectives",
    "optuna_study",
    "partitions",
    "per_client",
    "plans",
    "random_baseline",
    "read",
    "report_cohort",
    "reproduce",
    "resume",
    "rollout",
    "run",
    "samplers",
    "search",
    "selection",
    "simulation",
    "spec",
    "split_cohorts",
    "sweep",
    "tune",
    "types",
    "use_all_cores",
]
