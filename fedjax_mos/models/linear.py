"""Multinomial logistic regression."""

from fedjax_mos.components import cite
from fedjax_mos.models.layers import Dense, flatten
from fedjax_mos.models.staged import Staged, staged


@cite("li2020fedprox")
def logistic(classes: int = 10) -> Staged:
    """Logistic regression on the flattened input, which is also its feature vector.

    The convex model of FedProx. d = (n + 1) classes for n inputs: 7,850 on 28x28x1.
    """
    return staged([flatten], [Dense(classes)])
