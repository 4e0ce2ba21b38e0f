"""What an experiment is about: its fields, and the checks that need no JAX.

The command line reads these dataclasses before it imports anything heavy. There a
component is its name; in Python it may be an object (`Experiment` says which).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab.default_names import DEFAULT_ALGORITHM, DEFAULT_SAMPLER

if TYPE_CHECKING:
    import flax.linen as nn

    from fedjax_mos.client.losses import PerExample
    from fedjax_mos.components import Spec
    from fedjax_mos.data.partitions import Partition
    from fedjax_mos.data.sources.dataset import Dataset
    from fedjax_mos.models.functions import Model
    from fedjax_mos.signatures import Factory
    from fedjax_mos.types import (
        Backend,
        Channel,
        FederatedData,
        HostAssisted,
        Sampler,
    )

    DataLike = str | Dataset | FederatedData | Mapping[str, FederatedData]
    PartitionLike = str | Partition | Spec | Factory
    ModelLike = str | nn.Module | Model | Spec | Factory
    LossLike = str | PerExample
    MetricsLike = Mapping[str, PerExample]
    ChannelLike = str | Channel | Spec | Factory
    BackendLike = str | Backend
    AlgorithmLike = str | Spec | Factory
    SamplerLike = str | Sampler | HostAssisted | Spec | Factory
else:
    DataLike = PartitionLike = ModelLike = LossLike = ChannelLike = str | object
    BackendLike = AlgorithmLike = SamplerLike = str | object
    MetricsLike = Mapping[str, object]


# Nobody; every client with the server's model; also with one of its own, which the
# client makes of it by a round's local steps of SGD.
PER_CLIENT = ("off", "global", "personal")


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that the members of a comparison usually have in common."""

    dataset: DataLike = "digits"
    """A name of `fedjax-mos list`, npz:PATH, folder:PATH or tfds:NAME."""
    data_dir: Path | None = None
    """Where the data set's files are."""
    partition: PartitionLike | None = None
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
    model: ModelLike | None = None
    """A model's name; by default what fits the data set."""
    loss: LossLike = "cross_entropy"
    """A loss of the model's outputs: cross_entropy or squared_error."""
    metrics: MetricsLike | None = None
    """Further metrics of the outputs; by default the accuracy of a classifier."""
    uplink: ChannelLike | None = None
    """How clients' messages travel; by default as the algorithm's recipe says."""
    downlink: ChannelLike | None = None
    """How the server's messages travel to a client; by default as the recipe says."""
    broadcast: ChannelLike | None = None
    """How the server's messages are shared by all clients, before the downlink."""
    pool: int | None = None
    """Candidates that clients are chosen from; by default all."""
    pool_every: int = 100
    """Rounds after which new candidates are drawn."""
    augment: bool = False
    """Rotate by up to 10 degrees, crop with 4 pixels of padding and flip images."""
    backend: BackendLike = "auto"
    """auto, vmapped, chunked:SLOTS, sharded[:SLOTS], spread[:SLOTS] or debug."""
    eval_every: int = 1
    """Rounds between evaluations."""
    stop_at: float | None = None
    """Stop when the main metric of all seeds has reached this."""
    held_out: float = 0.0
    """Share of every client's examples that is set aside to measure it on."""
    per_client: str = "off"
    """Statistics over clients of the `global` model or also of `personal` ones."""
    cohorts: bool = False
    """Keep who took part in every round, with weights, bits and losses."""
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
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must lie in [0, 1): got {self.held_out}")
        if self.per_client not in PER_CLIENT:
            raise ValueError(
                f"per_client must be one of {', '.join(PER_CLIENT)}: "
                f"got {self.per_client!r}"
            )
        if self.data_seed < 0:
            raise ValueError(f"data_seed must not be negative: got {self.data_seed}")
        if self.clients is not None and self.cohort > self.clients:
            raise ValueError(
                f"cohort must be at most clients, {self.clients}: got {self.cohort}"
            )


@dataclasses.dataclass(frozen=True)
class Method(Setting):
    """A setting with the method that is tried in it."""

    algorithm: AlgorithmLike = DEFAULT_ALGORITHM
    """A name of `fedjax-mos list`."""
    sampler: SamplerLike = DEFAULT_SAMPLER
    """A name of `fedjax-mos list`."""
    seed: int = 0
    """Seed of everything random in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2**31): got {self.seed}")
