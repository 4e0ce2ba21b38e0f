"""Flower's simulation (Ray, one actor per core) with PyTorch clients.

python flower_run.py W1 [rounds]
"""

import logging
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent)]  # actors import from here too
sys.path[:0] = PATHS

import numpy as np  # noqa: E402
import torch  # noqa: E402
import workloads  # noqa: E402
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from measure import report  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_net import Net, loss  # noqa: E402

logging.getLogger("flwr").setLevel(logging.ERROR)
NAME = sys.argv[1]
WORK = workloads.WORKLOADS[NAME]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else WORK.rounds
FOLDER = Path(tempfile.gettempdir()) / f"fedjax-mos-peers-{NAME}"  # actors map it
client_app, server_app = ClientApp(), ServerApp()
times: list[float] = []
last: dict = {}


@client_app.train()
def train(message, context):
    sys.path[:0] = PATHS
    from torch_net import Net

    torch.set_num_threads(1)
    i = int(context.node_config["partition-id"])
    x, y, ends = (np.load(FOLDER / f"{n}.npy", mmap_mode="r") for n in ("x", "y", "e"))
    first, end = int(ends[i]), int(ends[i + 1])
    x = torch.from_numpy(np.array(x[first:end]))
    y = torch.from_numpy(np.array(y[first:end]))
    net = Net(WORK.model)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=WORK.lr)
    for rows in workloads.batches(np.random.default_rng(), WORK, end - first):
        rows = torch.from_numpy(rows)
        optimizer.zero_grad()
        functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": end - first}),
    }
    return Message(RecordDict(content), reply_to=message)


@server_app.main()
def main(grid, context):
    strategy = FedAvg(
        fraction_train=WORK.cohort / WORK.clients,
        fraction_evaluate=0.0,
        min_train_nodes=WORK.cohort,
        min_available_nodes=WORK.clients,
    )

    def clock(number, arrays):
        now = time.perf_counter()
        if number:
            times.append(now - last["time"])
        last.update(time=now, arrays=arrays)

    start = ArrayRecord(Net(WORK.model).state_dict())
    strategy.start(grid, start, num_rounds=ROUNDS, evaluate_fn=clock)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for part, values in zip(("x", "y", "e"), workloads.population(WORK), strict=True):
        np.save(FOLDER / f"{part}.npy", values)
    cores = os.cpu_count() or 1
    run_simulation(
        server_app,
        client_app,
        num_supernodes=WORK.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": cores, "log_to_driver": False},
        },
    )
    net = Net(WORK.model)
    net.load_state_dict(last["arrays"].to_torch_state_dict())
    report(f"{NAME}-fedavg", times[1:], program="flower", loss=loss(net, WORK))
