"""The data of an experiment: a named data set divided among clients."""

from functools import lru_cache
from pathlib import Path

from fedjax_mos import catalog
from fedjax_mos.data import sources
from fedjax_mos.data.dataset import Dataset
from fedjax_mos.data.federated import federate
from fedjax_mos.data.partition import natural
from fedjax_mos.types import FederatedData

DEFAULT_CLIENTS = 100


@lru_cache(maxsize=2)  # members of a comparison share one population
def population(
    name: str,
    data_dir: Path | None,
    partition: str,
    clients: int | None,
    seed: int,
    dataset_options: tuple,
    partition_options: tuple,
) -> tuple[Dataset, FederatedData, dict[str, FederatedData]]:
    """The data set, the clients' training data, and the stores to evaluate on."""
    given = dict(dataset_options)
    if name == "synthetic" and clients is not None:
        given["clients"] = clients
    dataset = sources.load(name, data_dir, **given)
    factory = catalog.PARTITIONS[partition].factory
    if factory is natural:
        if dataset.groups is None:
            raise ValueError(
                f"partition natural needs an id per example, which {name} does not have"
            )
        parts = natural(dataset.groups)
        if clients not in (None, len(parts.size)):
            raise ValueError(
                f"clients must be {len(parts.size)}, the number {name} has: "
                f"got {clients}"
            )
    else:
        parts = factory(
            dataset.train.y,
            DEFAULT_CLIENTS if clients is None else clients,
            seed=seed,
            **dict(partition_options),
        )
    data = federate(*dataset.train, parts)
    stores = {"train": data, "test": federate(*dataset.test)}
    if dataset.valid is not None:
        stores["valid"] = federate(*dataset.valid)
    return dataset, data, stores
