"""What an experiment is about, apart from the method: data, clients, local work."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.linen as nn

from fedjax_mos.client.losses import PerExample
from fedjax_mos.components import Spec
from fedjax_mos.data.partitions import Partition
from fedjax_mos.data.sources.dataset import Dataset
from fedjax_mos.models.functions import Model
from fedjax_mos.signatures import Factory
from fedjax_mos.types import Backend, Channel, FederatedData


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that the members of a comparison usually have in common."""

    dataset: str | Dataset | FederatedData | Mapping[str, FederatedData] = "digits"
    """A name of `fedjax-mos list`, npz:PATH, folder:PATH or tfds:NAME."""
    data_dir: Path | None = None
    """Where the data set's files are."""
    partition: str | Partition | Spec | Factory | None = None
    """How examples are divided among clients; by default what fits the data set."""
    clients: int | None = None
    """Number of clients N; 100 unless the data set has its own."""
    cohort: int = 10
    """Clients per round M."""
    rounds: int = 100
    """Number of rounds."""
    steps: int | None = None
    """Local minibatch steps per round; 5 unless epochs are given."""
    epochs: int | None = None
    """Local epochs per round, instead of steps."""
    batch_size: int = 10
    """Examples per minibatch."""
    model: str | nn.Module | Model | Spec | Factory | None = None
    """A model's name; by default what fits the data set."""
    loss: str | PerExample = "cross_entropy"
    """A loss of the model's outputs: cross_entropy or squared_error."""
    metrics: Mapping[str, PerExample] | None = None
    """Further metrics of the outputs; by default the accuracy of a classifier."""
    uplink: str | Channel | Spec | Factory | None = None
    """How clients' messages travel; by default as the algorithm's recipe says."""
    downlink: str | Channel | Spec | Factory | None = None
    """How the server's messages travel to a client; by default as the recipe says."""
    broadcast: str | Channel | Spec | Factory | None = None
    """How the server's messages are shared by all clients, before the downlink."""
    pool: int | None = None
    """Candidates that clients are chosen from; by default all."""
    pool_every: int = 100
    """Rounds after which new candidates are drawn."""
    augment: bool = False
    """Rotate by up to 10 degrees, crop with 4 pixels of padding and flip images."""
    backend: str | Backend = "auto"
    """auto, vmapped, chunked:SLOTS, sharded[:SLOTS], spread[:SLOTS] or debug."""
    eval_every: int = 1
    """Rounds between evaluations."""
    data_seed: int = 0
    """Seed of the partition, apart from the seed of training."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Any option of any component by name, such as {"lr": 0.1, "alpha": 0.3}."""

    def __post_init__(self) -> None:
        for name in ("cohort", "rounds", "batch_size", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1: got {getattr(self, name)}"
                )
        for name in ("clients", "steps", "epochs", "pool", "pool_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1: got {value}")
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"give steps or epochs, not both: got {self.steps} and {self.epochs}"
            )
        if self.pool is not None and self.cohort > self.pool:
            raise ValueError(
                f"cohort must be at most pool, {self.pool}: got {self.cohort}"
            )
        if self.data_seed < 0:
            raise ValueError(f"data_seed must not be negative: got {self.data_seed}")
        if self.clients is not None and self.cohort > self.clients:
            raise ValueError(
                f"cohort must be at most clients, {self.clients}: got {self.cohort}"
            )
