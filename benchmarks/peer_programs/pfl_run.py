"""pfl-research with its own federated averaging, in one process or (torchrun) several.

python pfl_run.py W1 [rounds]
"""

import logging
import os
import sys
import time

import numpy as np
import torch
import workloads
from measure import report
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional
from torch_net import Net, loss

logging.disable(logging.INFO)
PROCESSES, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))


class PflNet(Net):
    def loss(self, x, y):
        return functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {"loss": Weighted(self.loss(x, y).item() * len(x), len(x))}


class Clock(TrainingProcessCallback):
    """Notes the time of every round."""

    def __init__(self):
        self.times, self.last = [], time.perf_counter()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last = now
        return False, Metrics()


def main(name: str, rounds: int) -> None:
    torch.set_num_threads(1)
    work, rng = workloads.WORKLOADS[name], np.random.default_rng(2)
    x, y, ends = workloads.population(work)
    x, y = torch.from_numpy(x), torch.from_numpy(y)

    class Client(PyTorchTensorDataset):
        """Shuffled and repeated batches; pfl itself goes through once, in order."""

        def iter(self, batch_size):
            inputs, labels = self.raw_data
            for rows in workloads.batches(rng, work, len(inputs)):
                rows = torch.from_numpy(rows)
                yield inputs[rows], labels[rows]

    def client(i):
        mine = slice(ends[i], ends[i + 1])
        return Client((x[mine], y[mine]), user_id=str(i))

    net, clock = PflNet(work.model), Clock()
    np.random.seed(0)
    sampler = get_user_sampler("minimize_reuse", range(work.clients))
    data = FederatedDataset(client, sampler)
    backend = SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()])
    clock.last = time.perf_counter()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=10**9,
            train_cohort_size=work.cohort,
            val_cohort_size=0,
        ),
        backend,
        PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0)),
        NNTrainHyperParams(
            local_learning_rate=work.lr,
            local_num_epochs=None,
            local_batch_size=work.batch,
            local_num_steps=work.steps,
        ),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    if RANK == 0:
        program = f"pfl, {PROCESSES} process{'es' if PROCESSES > 1 else ''}"
        report(f"{name}-fedavg", clock.times[1:], program=program, loss=loss(net, work))


if __name__ == "__main__":
    name, *rounds = sys.argv[1:]
    main(name, int(*rounds or [workloads.WORKLOADS[name].rounds]))
