"""fedjax_mos: federated learning as one pure, jitted function.

Clients are a leading batch axis, a round is `step(data, state, key)`, a training run is
a scan of it, and every float hyperparameter is a leaf of the state.
"""

from fedjax_mos import types
from fedjax_mos._version import __version__
from fedjax_mos.algorithms import (
    fedacg,
    fedadagrad,
    fedadam,
    fedams,
    fedavg,
    fedavgm,
    fedcm,
    feddc,
    feddyn,
    fedglomo,
    fedlomo,
    fedmos,
    fedmos_release,
    fedopt,
    fedprox,
    fedyogi,
    lag,
    mime,
    mimelite,
    scaffold,
    slowmo,
    stem,
    tracked,
)
from fedjax_mos.backends import chunked, debug, sharded, spread, vmapped
from fedjax_mos.channels import (
    accelerated,
    dense,
    difference,
    error_feedback,
    identity,
    lazy,
    plain,
    quantise,
    random_k,
    scaled_sign,
    straight_through,
    top_k,
)
from fedjax_mos.data import Partition, augment, federate, partition
from fedjax_mos.data.dataset import arrays
from fedjax_mos.data.sources import load
from fedjax_mos.evaluate import evaluator, per_client
from fedjax_mos.experiment import Experiment
from fedjax_mos.gradients.hypergrad import hypergrad
from fedjax_mos.gradients.tune import tune
from fedjax_mos.hyperparameters import decaying, spec
from fedjax_mos.local import local_scan, local_work, num_steps
from fedjax_mos.losses import classification, cross_entropy, masked_mean
from fedjax_mos.machine import use_all_cores
from fedjax_mos.plans import epochs, with_replacement
from fedjax_mos.round import simulation
from fedjax_mos.run import rollout, run
from fedjax_mos.samplers import (
    adaptive,
    bernoulli,
    client_gradients,
    cluster_order,
    clustered,
    clustered_adaptive,
    everyone,
    multinomial,
    pools,
    power_of_choice,
    similar_bins,
    systematic,
    uniform,
    uniform_release,
)
from fedjax_mos.sweeps.cube import Cube
from fedjax_mos.sweeps.grid import Range
from fedjax_mos.sweeps.sweep import sweep
from fedjax_mos.types import Algorithm, Exchange, Spec

__all__ = [
    "Algorithm",
    "Cube",
    "Exchange",
    "Experiment",
    "Partition",
    "Range",
    "Spec",
    "__version__",
    "accelerated",
    "adaptive",
    "arrays",
    "augment",
    "bernoulli",
    "chunked",
    "classification",
    "client_gradients",
    "cluster_order",
    "clustered",
    "clustered_adaptive",
    "cross_entropy",
    "debug",
    "decaying",
    "dense",
    "difference",
    "epochs",
    "error_feedback",
    "evaluator",
    "everyone",
    "fedacg",
    "fedadagrad",
    "fedadam",
    "fedams",
    "fedavg",
    "fedavgm",
    "fedcm",
    "feddc",
    "feddyn",
    "federate",
    "fedglomo",
    "fedlomo",
    "fedmos",
    "fedmos_release",
    "fedopt",
    "fedprox",
    "fedyogi",
    "hypergrad",
    "identity",
    "lag",
    "lazy",
    "load",
    "local_scan",
    "local_work",
    "masked_mean",
    "mime",
    "mimelite",
    "multinomial",
    "num_steps",
    "partition",
    "per_client",
    "plain",
    "pools",
    "power_of_choice",
    "quantise",
    "random_k",
    "rollout",
    "run",
    "scaffold",
    "scaled_sign",
    "sharded",
    "similar_bins",
    "simulation",
    "slowmo",
    "spec",
    "spread",
    "stem",
    "straight_through",
    "sweep",
    "systematic",
    "top_k",
    "tracked",
    "tune",
    "types",
    "uniform",
    "uniform_release",
    "use_all_cores",
    "vmapped",
    "with_replacement",
]
