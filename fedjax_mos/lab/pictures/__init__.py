"""Pictures of results: one style, none needs a screen, each says what it shows."""

from fedjax_mos.lab.pictures.clients import client_distributions, selection
from fedjax_mos.lab.pictures.curves import curves, target_bars
from fedjax_mos.lab.pictures.maps import as_label, heat_map, partition_map
from fedjax_mos.lab.pictures.rungs import halving
from fedjax_mos.lab.pictures.style import new_figure, save
from fedjax_mos.lab.pictures.theory import selection_theory
from fedjax_mos.lab.pictures.tuning import trajectory

__all__ = [
    "as_label",
    "client_distributions",
    "curves",
    "halving",
    "heat_map",
    "new_figure",
    "partition_map",
    "save",
    "selection",
    "selection_theory",
    "target_bars",
    "trajectory",
]
