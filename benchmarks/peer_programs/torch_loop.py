"""What a researcher writes by hand: PyTorch, one client after another.

python torch_loop.py W1 fedavg|fedmos [rounds]
"""

import os
import sys
import time

import numpy as np
import torch
import workloads
from measure import report
from torch.nn import functional
from torch_net import Net, loss

STORM, PROX, MOMENTUM = 0.1, 0.001, 0.8


def gradient(net, x, y, seed):
    """Of the mean cross-entropy, at the net's present weights; `seed` is dropout's."""
    if net.rate:
        torch.manual_seed(seed)
    value = functional.cross_entropy(net(x), y)
    return torch.autograd.grad(value, list(net.parameters()))


def set_to(net, values):
    for parameter, value in zip(net.parameters(), values, strict=True):
        parameter.data.copy_(value)


def fedavg(net, start, x, y, work, rng):
    """One client: y <- y - lr g."""
    optimizer = torch.optim.SGD(net.parameters(), lr=work.lr)
    for rows in workloads.batches(rng, work, len(x)):
        rows = torch.from_numpy(rows)
        optimizer.zero_grad()
        functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    return [p.detach() - s for p, s in zip(net.parameters(), start, strict=True)]


@torch.no_grad()
def fedmos(net, start, x, y, work, rng):
    """One client: d <- g(y) + (1 - a)(d - g(previous y)), both on the same batch."""
    with torch.enable_grad():
        seed = int(rng.integers(2**31))
        direction = gradient(net, x, y, seed)  # the first one on all local data
    previous = [s.clone() for s in start]
    for k, rows in enumerate(workloads.batches(rng, work, len(x))):
        rows = torch.from_numpy(rows)
        if k:
            now = [p.detach().clone() for p in net.parameters()]
            with torch.enable_grad():
                # Both drop the same out.
                fresh = gradient(net, x[rows], y[rows], seed + k)
                set_to(net, previous)
                stale = gradient(net, x[rows], y[rows], seed + k)
            set_to(net, now)
            terms = zip(fresh, direction, stale, strict=True)
            direction = [g + (1 - STORM) * (d - old) for g, d, old in terms]
            previous = now
        for p, d, s in zip(net.parameters(), direction, start, strict=True):
            p.data.sub_(work.lr * d + PROX * (p - s))
    return [p.detach() - s for p, s in zip(net.parameters(), start, strict=True)]


def main(name: str, method: str, rounds: int) -> None:
    torch.set_num_threads(int(os.environ.get("THREADS", 1)))
    work = workloads.WORKLOADS[name]
    client = {"fedavg": fedavg, "fedmos": fedmos}[method]
    x, y, ends = workloads.population(work)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    net, rng, times = Net(work.model), np.random.default_rng(2), []
    momentum = [torch.zeros_like(p) for p in net.parameters()]
    for _ in range(rounds):
        began = time.perf_counter()
        start = [p.detach().clone() for p in net.parameters()]
        total, mean = 0, [torch.zeros_like(p) for p in start]
        for i in rng.choice(work.clients, work.cohort, replace=False):
            mine = slice(ends[i], ends[i + 1])
            set_to(net, start)
            delta = client(net, start, x[mine], y[mine], work, rng)
            size = int(ends[i + 1] - ends[i])
            total += size
            for m, d in zip(mean, delta, strict=True):
                m.add_(d, alpha=size)
        if method == "fedmos":  # a heavy ball on the server
            for b, m in zip(momentum, mean, strict=True):
                b.mul_(MOMENTUM).add_(m / total)
            set_to(net, [s + b for s, b in zip(start, momentum, strict=True)])
        else:
            set_to(net, [s + m / total for s, m in zip(start, mean, strict=True)])
        times.append(time.perf_counter() - began)
    report(f"{name}-{method}", times[1:], program="torch", loss=loss(net, work))


if __name__ == "__main__":
    name, method, *rounds = sys.argv[1:]
    main(name, method, int(*rounds or [workloads.WORKLOADS[name].rounds]))
