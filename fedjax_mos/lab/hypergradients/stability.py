"""A gradient of a whole run, and whether it can be trusted."""

import math
from typing import NamedTuple

import numpy as np
import optax

from fedjax_mos.lab.hypergradients.checkpointed_rollout import borders
from fedjax_mos.lab.hypergradients.windowed_rollout import window_ends
from fedjax_mos.types import PyTree

LIMIT = 100.0  # of `growth`: docs/design.md says what was measured


class Hypergradient(NamedTuple):
    """A training run's objective and its derivative by the numbers asked for.

    `growth[i]` is how many times larger a small change of the initial parameters is
    after `rounds[i]` rounds, for the worst of the seeds. Where rounds contract it stays
    near one; where they do not it grows exponentially, and the gradient is of no use
    over that horizon: `unstable` says so in a sentence, and is empty otherwise.
    `horizon` is how many rounds a gradient may look back over.
    """

    value: float
    gradient: dict[str, PyTree]
    norm: float
    rounds: np.ndarray
    growth: np.ndarray
    unstable: str
    mode: str
    horizon: int = 0


def report(
    value: float,
    gradient: PyTree,
    growth: np.ndarray,
    rounds: int,
    mode: str,
    window: int | None,
) -> Hypergradient:
    """What is there, and whether it can be trusted."""
    norm = float(optax.tree.norm(gradient))
    at = borders(rounds) if window is None else window_ends(rounds, window)
    tame = growth < LIMIT  # False for NaN too
    span, most = window or rounds, float(growth[-1] if window is None else growth.max())
    stable, unstable = span, ""
    if not tame.all():
        known = at[: np.argmin(tame)][-1:].sum()
        stable = int(known) if window is None else window // 2
        unstable = (
            f"a small change of the start grows {most:.3g}-fold over {span} "
            f"rounds (limit {LIMIT:g}): the gradient is of use over at most {stable} "
            "rounds; take smaller steps or fewer rounds"
        )
    elif not math.isfinite(value) or not math.isfinite(norm):
        unstable = f"the objective is {value:g}, its gradient has the norm {norm:g}"
        stable = 0
    return Hypergradient(
        float(value), gradient, norm, at, growth, unstable, mode, stable
    )
