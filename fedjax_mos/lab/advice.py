"""Thresholds of message rules by a paper's advice: `kappa=advice` or `advice:ALPHA`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from fedjax_mos.channels import advised_constant, threshold
from fedjax_mos.data.generated import Generated
from fedjax_mos.data.sources.named import is_grouped
from fedjax_mos.data.sources.table import SOURCES
from fedjax_mos.schedule import at_start
from fedjax_mos.types import FederatedData, SamplerTools

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment
    from fedjax_mos.lab.parts import Part

_WORD = "advice"
DEFAULT_CLIENTS = 100


def advised(experiment: "Experiment", sampler: "Part") -> dict[str, Any]:
    """The experiment's options, with numbers where the advice was asked for.

    kappa = C / (alpha |S_t|) with C = sqrt(alpha log m) / m; m are all clients, |S_t|
    those that a round shall have, alpha is 1 unless it is given.
    """
    found = dict(experiment.options)
    for name, value in experiment.options.items():
        text = value if isinstance(value, str) else ""
        word, _, number = text.partition(":")
        if name.rpartition(".")[2] != "kappa" or word != _WORD:
            continue
        try:
            alpha = float(number or 1)
        except ValueError:
            raise ValueError(
                f"option {name} must be a number, advice or advice:ALPHA: got {value!r}"
            ) from None
        clients = _clients(experiment, name)
        constant = advised_constant(clients, alpha)
        found[name] = threshold(constant, _slots(experiment, sampler, clients), alpha)
    return found


def _clients(experiment: "Experiment", name: str) -> int:
    """m, as far as it is known before the data are loaded."""
    dataset = experiment.dataset
    if experiment.clients is not None:
        return experiment.clients
    if isinstance(dataset, Mapping):
        dataset = dataset["train"]
    if isinstance(dataset, Generated):
        return dataset.clients
    if isinstance(dataset, FederatedData):
        return dataset.size.shape[0]
    source = SOURCES.get(dataset) if isinstance(dataset, str) else None
    own = source is not None and source.own_clients
    if own or is_grouped(dataset) or not isinstance(experiment.partition, str | None):
        raise ValueError(f"clients must be given for {name}={_WORD}: got None")
    return DEFAULT_CLIENTS


def _slots(experiment: "Experiment", sampler: "Part", clients: int) -> int:
    """|S_t|: the cohort, or everybody if the sampler takes all."""
    tools = SamplerTools(experiment.cohort, lambda params, batch, key: jnp.zeros(()))
    made = sampler.spec.build(tools, **at_start(sampler.spec.hp))
    return clients if getattr(made, "takes_all", False) else experiment.cohort
