"""The threshold of message rules as the NLA/AA paper writes it.

[anonymous2024bidirectional], Eqs. (3) and (4): a rule fires where |m - r| <= kappa |r|
with kappa = C / (alpha |S_t|), |S_t| clients taking part; Section 5 suggests C and D
"in the vicinity of" sqrt(alpha log m) / m for m clients. alpha is nowhere given.
"""

import math


def threshold(constant: float, participants: int, alpha: float = 1.0) -> float:
    """kappa = C / (alpha |S_t|)."""
    if alpha <= 0:
        raise ValueError(f"alpha must be positive: got {alpha}")
    if participants < 1:
        raise ValueError(f"participants must be at least 1: got {participants}")
    return constant / (alpha * participants)


def advised_constant(clients: int, alpha: float = 1.0) -> float:
    """C = D = sqrt(alpha log m) / m.

    >>> round(threshold(advised_constant(100, 0.01), 50, 0.01), 5)
    0.00429
    """
    if alpha <= 0:
        raise ValueError(f"alpha must be positive: got {alpha}")
    if clients < 1:
        raise ValueError(f"clients must be at least 1: got {clients}")
    return math.sqrt(alpha * math.log(clients)) / clients
