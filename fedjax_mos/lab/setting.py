"""What an experiment is about: its fields, and the checks that need no JAX.

The command line reads these dataclasses before it imports anything heavy. There a
component is its name; in Python it may be an object (`Experiment` says which).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedjax_mos.lab.default_names import DEFAULT_ALGORITHM, DEFAULT_SAMPLER
from fedjax_mos.lab.setting_checks import (
    as_tuple,
    check_component,
    check_count,
    check_integer,
    check_setting,
)

if TYPE_CHECKING:
    import flax.linen as nn
    import numpy as np

    from fedjax_mos.client.losses import PerExample
    from fedjax_mos.components import Spec
    from fedjax_mos.data.generated import Generated
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

    DataLike = str | Dataset | FederatedData | Generated | Mapping[str, FederatedData]
    PartitionLike = str | Partition | Spec | Factory
    ModelLike = str | nn.Module | Model | Spec | Factory
    LossLike: TypeAlias = str | PerExample
    MetricsLike = Mapping[str, PerExample]
    ChannelLike = str | Channel | Spec | Factory
    BackendLike = str | Backend
    AlgorithmLike = str | Spec | Factory
    SamplerLike = str | Sampler | HostAssisted | Spec | Factory
    Importance = str | Sequence[int] | np.ndarray
else:
    DataLike = PartitionLike = ModelLike = LossLike = ChannelLike = str | object
    BackendLike = AlgorithmLike = SamplerLike = Importance = str | object
    MetricsLike = Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that the members of a comparison usually have in common."""

    dataset: DataLike = "digits"
    """A name of `fedjax-mos list`, csv:PATH, npz:PATH, folder:PATH or tfds:NAME."""
    data_dir: Path | None = None
    """Where the data set's files are."""
    partition: PartitionLike | None = None
    """How examples are divided among clients: a name or npz:PATH of a file that
    `Experiment.write_partition` wrote; by default what fits the data set."""
    clients: int | None = None
    """Number of clients N; 100 unless the data set has its own."""
    importance: Importance | None = None
    """What clients count with: size (the default, unless data bring masses) or uniform;
    in Python also one whole number per client."""
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
    rows: str = "auto"
    """Where clients' rows are kept: memory, disk, or auto: on disk where memory does
    not hold them."""
    precision: str = "default"
    """Of the model's products: default, high, highest, bfloat16, tensorfloat32 or
    float32. A CPU has float32 only; by default a TPU rounds factors to bfloat16."""
    eval_every: int = 1
    """Rounds between evaluations."""
    eval_train: bool = True
    """Evaluate on the training examples, too, which are mostly the most."""
    stop_at: float | None = None
    """Stop when the main metric of all seeds has reached this."""
    drop_nonfinite: bool = False
    """Leave clients whose update is not finite out of their round, and count them."""
    held_out: float = 0.0
    """Share of every client's examples that is set aside to measure it on."""
    per_client: str = "off"
    """Statistics over clients of the `global` model or also of `personal` ones."""
    cohorts: bool = False
    """Keep who took part in every round, with weights, bits and losses."""
    dropout_loss: bool = False
    """Also measure the training loss with dropout on, minibatch by minibatch."""
    diagnostics: tuple[str, ...] = ()
    """At every evaluation also squared_gradient_norm, client_drift, direction_error,
    update_variance, update_cosine, compression_ratio, rule_ratio."""
    data_seed: int = 0
    """Seed of the partition, apart from the seed of training."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Any option of any component by name, such as {"lr": 0.1, "alpha": 0.3}."""

    def __post_init__(self) -> None:
        if not isinstance(self.importance, str | None):
            # A tuple, however it was given: experiments are compared and written.
            numbers = as_tuple("importance", self.importance)
            object.__setattr__(self, "importance", numbers)
        names = as_tuple("diagnostics", self.diagnostics)
        object.__setattr__(self, "diagnostics", names)
        check_setting(self)


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
        for name in ("algorithm", "sampler"):
            check_component(name, getattr(self, name), needed=True)
        check_integer("seed", self.seed)
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2**31): got {self.seed}")

    def check_seeds(self, seeds: int | None) -> None:
        """Raise a ValueError unless so many seeds, from `seed` on, are seeds."""
        if seeds is None:
            return
        check_count("seeds", seeds)
        if self.seed + seeds > 2**31:
            raise ValueError(
                f"seed + seeds must be at most 2**31: got {self.seed} + {seeds}"
            )
        if self.backend == "debug" or not getattr(self.backend, "traced", True):
            raise ValueError(
                "backend must be another than debug, which runs one seed at a time: "
                f"got {seeds} seeds"
            )
