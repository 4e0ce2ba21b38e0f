"""Who takes part in a round, and with which weight."""

from fedjax_mos.samplers.adaptive import adaptive, systematic
from fedjax_mos.samplers.bernoulli import bernoulli
from fedjax_mos.samplers.clustered import clustered, clustered_adaptive
from fedjax_mos.samplers.clusters import (
    client_gradients,
    cluster_order,
    similar_bins,
)
from fedjax_mos.samplers.cohort import merge_duplicates, subset
from fedjax_mos.samplers.everyone import everyone
from fedjax_mos.samplers.lag_contact import lag_contact
from fedjax_mos.samplers.multinomial import multinomial
from fedjax_mos.samplers.pools import pools
from fedjax_mos.samplers.power_of_choice import power_of_choice
from fedjax_mos.samplers.theory import Moments, draw_matrix, from_matrix, moments
from fedjax_mos.samplers.uniform import uniform, uniform_release

__all__ = [
    "Moments",
    "adaptive",
    "bernoulli",
    "client_gradients",
    "cluster_order",
    "clustered",
    "clustered_adaptive",
    "draw_matrix",
    "everyone",
    "from_matrix",
    "lag_contact",
    "merge_duplicates",
    "moments",
    "multinomial",
    "pools",
    "power_of_choice",
    "similar_bins",
    "subset",
    "systematic",
    "uniform",
    "uniform_release",
]
