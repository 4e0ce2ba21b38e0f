"""The work that is measured, in NumPy alone, so that every peer can import it.

Every program does the same: `steps` SGD steps of `batch` examples per client (or so
many epochs, whose last batches are short), means weighted by the number of examples,
the same initial weights. Only the random order of the examples, and what is dropped
out, differ, so the losses printed agree roughly, not exactly.
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
    epochs: int = 0  # instead of steps, where there are any

    def steps_of(self, sizes: np.ndarray) -> np.ndarray:
        """Local steps of clients with so many examples."""
        each = -(-np.asarray(sizes) // self.batch)
        return self.epochs * each if self.epochs else np.full(each.shape, self.steps)

    @property
    def examples(self) -> float:
        """Gradients of single examples in a round, on average."""
        mean = float(np.diff(population(self)[2]).mean())
        each = self.epochs * mean if self.epochs else self.steps * self.batch
        return self.cohort * each

    @property
    def active(self) -> float:
        """Share of the steps that are not idle if all clients take the longest's."""
        steps = self.steps_of(np.diff(population(self)[2]))
        return float(steps.mean() / steps.max())

    def waiting(self, devices: int, draws: int = 10_000) -> float:
        """Share of the time in which devices have no work, clients one at a time.

        A device waits for the one whose clients take the most steps; slots that fill
        a cohort up, so that the devices divide it, repeat the last client in vain.
        """
        rng, steps = (
            np.random.default_rng(0),
            self.steps_of(np.diff(population(self)[2])),
        )
        lost = []
        for _ in range(draws):
            drawn = steps[rng.choice(len(steps), self.cohort, replace=False)]
            filled = np.append(drawn, [drawn[-1]] * (-self.cohort % devices))
            longest = filled.reshape(devices, -1).sum(axis=1).max()
            lost.append(1 - drawn.sum() / (devices * longest))
        return float(np.mean(lost))


WORKLOADS = {
    "W1": Workload("cnn", 500, 10, 50, 25, 5, 10, 6),
    "W2": Workload("mlp", 100, 600, 600, 50, 57, 32, 4),
    "W3": Workload("logistic", 3500, 10, 30, 100, 10, 10, 40),
    "W4-1000": Workload("logistic", 1_000, 10, 30, 100, 10, 10, 40),
    "W4-10000": Workload("logistic", 10_000, 10, 30, 100, 10, 10, 40),
    "W4-100000": Workload("logistic", 100_000, 10, 30, 100, 10, 10, 40),
    "W5": Workload("small", 100, 10, 10, 10, 5, 10, 200),
    # FedMoS's experiment on MNIST as released: clients of 1 to 5 batches, 5 epochs.
    "W6": Workload("dropout_cnn", 500, 10, 50, 25, 0, 10, 6, epochs=5),
}
# Kernels [height, width, in, out] and matrices [in, out], each followed by its bias.
SHAPES = {
    "cnn": [(5, 5, 1, 32), (5, 5, 32, 64), (1024, 512), (512, 10)],  # d = 582,026
    "dropout_cnn": [(5, 5, 1, 10), (5, 5, 10, 20), (320, 50), (50, 10)],  # d = 21,840
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


def batches(
    rng: np.random.Generator, work: Workload, examples: int
) -> list[np.ndarray]:
    """Positions within one client, batch by batch: its shuffles, one after another."""
    if work.epochs:
        cuts = np.arange(work.batch, examples, work.batch)
        shuffles = [rng.permutation(examples) for _ in range(work.epochs)]
        return [batch for rows in shuffles for batch in np.split(rows, cuts)]
    wanted = work.steps * work.batch
    shuffles = [rng.permutation(examples) for _ in range(-(-wanted // examples))]
    return list(np.concatenate(shuffles)[:wanted].reshape(work.steps, work.batch))


def loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy: a check that the work was done, not a measurement."""
    z = np.asarray(logits, np.float64)
    z -= z.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), y]))
