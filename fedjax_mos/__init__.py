"""fedjax_mos: federated learning as one pure, jitted function.

Clients are a leading batch axis, a round is `step(data, state, key)`, a training run is
a scan of it, and every float hyperparameter is a leaf of the state.
"""

from fedjax_mos import types
from fedjax_mos._version import __version__
from fedjax_mos.algorithms import fedavg, fedmos, fedmos_release, fedopt
from fedjax_mos.backends import chunked, debug, sharded, vmapped
from fedjax_mos.channels import dense, identity
from fedjax_mos.data import Partition, augment, federate, partition
from fedjax_mos.data.dataset import arrays
from fedjax_mos.data.sources import load
from fedjax_mos.evaluate import evaluator, per_client
from fedjax_mos.experiment import Experiment
from fedjax_mos.hyperparameters import spec
from fedjax_mos.local import epochs, local_scan, local_work, with_replacement
from fedjax_mos.losses import classification, cross_entropy, masked_mean
from fedjax_mos.round import simulation
from fedjax_mos.run import rollout, run
from fedjax_mos.samplers import adaptive, multinomial, uniform
from fedjax_mos.types import Algorithm, Exchange, Spec

__all__ = [
    "Algorithm",
    "Exchange",
    "Experiment",
    "Partition",
    "Spec",
    "__version__",
    "adaptive",
    "arrays",
    "augment",
    "chunked",
    "classification",
    "cross_entropy",
    "debug",
    "dense",
    "epochs",
    "evaluator",
    "fedavg",
    "federate",
    "fedmos",
    "fedmos_release",
    "fedopt",
    "identity",
    "load",
    "local_scan",
    "local_work",
    "masked_mean",
    "multinomial",
    "partition",
    "per_client",
    "rollout",
    "run",
    "sharded",
    "simulation",
    "spec",
    "types",
    "uniform",
    "vmapped",
    "with_replacement",
]
