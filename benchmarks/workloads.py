"""The work that is measured, in NumPy alone, so that every peer can import it.

Every program does the same: `steps` SGD steps of `batch` examples per client, means
weighted by the number of examples, the same initial weights. Only the random order of
the examples differs, so the losses printed agree roughly, not exactly.
"""

import functools
from typing import NamedTuple

import numpy as np


class Workload(NamedTuple):
    """A model and a population of `clients` with `smallest` to `largest` examples."""

    model: str
    clients: int
    smallest: int
    largest: int
    cohort: int
    steps: int
    batch: int
    rounds: int  # measured at a time
    lr: float = 0.05


WORKLOADS = {
    "W1": Workload("cnn", 500, 10, 50, 25, 5, 10, 6),
    "W2": Workload("mlp", 100, 600, 600, 50, 57, 32, 4),
    "W3": Workload("logistic", 3500, 10, 30, 100, 10, 10, 40),
    "W4-1000": Workload("logistic", 1_000, 10, 30, 100, 10, 10, 40),
    "W4-10000": Workload("logistic", 10_000, 10, 30, 100, 10, 10, 40),
    "W4-100000": Workload("logistic", 100_000, 10, 30, 100, 10, 10, 40),
    "W5": Workload("small", 100, 10, 10, 10, 5, 10, 200),
}
# Kernels [height, width, in, out] and matrices [in, out], each followed by its bias.
SHAPES = {
    "cnn": [(5, 5, 1, 32), (5, 5, 32, 64), (1024, 512), (512, 10)],  # d = 582,026
    "mlp": [(784, 200), (200, 10)],  # d = 159,010
    "logistic": [(784, 10)],  # d = 7,850
    "small": [(64, 64), (64, 10)],  # d = 4,810
}


def weights(model: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Initial (kernel, bias) of every layer."""
    rng = np.random.default_rng(1)
    layers = []
    for shape in SHAPES[model]:
        bound = np.sqrt(3 / np.prod(shape[:-1]))
        kernel = rng.uniform(-bound, bound, shape).astype(np.float32)
        layers.append((kernel, np.zeros(shape[-1], np.float32)))
    return layers


@functools.cache
def population(work: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x [examples, features], y [examples] of a linear teacher, ends [clients + 1].

    Client i owns the rows from ends[i] to ends[i + 1].
    """
    rng = np.random.default_rng(0)
    sizes = rng.integers(work.smallest, work.largest + 1, work.clients)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    features = 64 if work.model == "small" else 784
    teacher = rng.standard_normal((features, 10), np.float32)
    x = np.empty((ends[-1], features), np.float32)
    y = np.empty(ends[-1], np.int64)
    for start in range(0, len(x), 50_000):  # in pieces: the largest is 6 GB
        part = x[start : start + 50_000]
        rng.random(out=part, dtype=np.float32)
        part -= 0.5
        y[start : start + 50_000] = (part @ teacher).argmax(1)
    return x, y, ends


def batches(rng: np.random.Generator, work: Workload, examples: int) -> np.ndarray:
    """Positions [steps, batch] within one client: its shuffles, one after another."""
    wanted = work.steps * work.batch
    shuffles = [rng.permutation(examples) for _ in range(-(-wanted // examples))]
    return np.concatenate(shuffles)[:wanted].reshape(work.steps, work.batch)


def loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy: a check that the work was done, not a measurement."""
    z = np.asarray(logits, np.float64)
    z -= z.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), y]))
