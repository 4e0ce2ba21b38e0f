"""What samplers do before anybody is drawn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab.pictures.style import (
    MAP,
    caption,
    finish,
    line,
    new_figure,
    spans_orders,
    whole_numbers,
)
from fedjax_mos.samplers import Moments

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def selection_theory(matrix: np.ndarray, moments: Mapping[str, Moments]) -> "Figure":
    """The probabilities p_im of M draws, and Var w_i by share for every sampler."""
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    # Heaviest first, as the matrix is filled; ties as they are.
    heaviest = np.argsort(-matrix.sum(axis=0), kind="stable")
    image = left.imshow(
        matrix[:, heaviest],
        aspect="auto",
        cmap=MAP,
        interpolation="nearest",
        extent=(0.5, matrix.shape[1] + 0.5, len(matrix) + 0.5, 0.5),
        vmin=0,
    )
    left.set(xlabel="client, the heaviest first", ylabel="draw")
    whole_numbers(left.xaxis, left.yaxis)
    figure.colorbar(image, ax=left, label="probability of the client in the draw")
    for number, (name, one) in enumerate(moments.items()):
        style = line(number)
        right.scatter(
            one.share,
            one.variance,
            label=f"{name}, sum {one.total:.3g}",
            s=16,
            alpha=0.7,
            color=style.color,
            marker=style.marker,
        )
    right.set(xlabel="share p of the client", ylabel="variance of its weight")
    shown = np.concatenate([one.variance for one in moments.values()])
    finish(right, log=spans_orders(shown))
    right.legend(fontsize=8)
    caption(figure, "Exact, before any client is drawn; one point per client.")
    return figure
