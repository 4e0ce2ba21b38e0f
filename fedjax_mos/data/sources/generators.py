"""Data sets that need no file: scikit-learn's digits and FedProx's synthetic data."""

from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.components import cite
from fedjax_mos.data.generated import Generated, generated
from fedjax_mos.data.sources.dataset import Dataset, arrays
from fedjax_mos.memory import check_fits
from fedjax_mos.types import Count, Key, NonNegative

_FEATURES, _CLASSES = 60, 10
# Clients have at least 50 examples; all are held in pieces, as arrays and by JAX.
_COPIES = 3
_CLIENT_BYTES = _COPIES * 4 * _FEATURES * 50
_ADVICE = "take fewer clients"


@cite("alpaydin1998digits")
def digits() -> Dataset:
    """1797 handwritten digits of 8 x 8 pixels in 0..16, split 60/20/20."""
    table = _digits_table()
    order = np.random.default_rng(0).permutation(len(table))
    x = table[order, :-1].astype(np.uint8).reshape(-1, 8, 8, 1)
    y = table[order, -1].astype(int)
    a, b = int(0.6 * len(y)), int(0.8 * len(y))
    return arrays(
        x[:a],
        y[:a],
        x[b:],
        y[b:],
        x_valid=x[a:b],
        y_valid=y[a:b],
        classes=10,
    )


def _digits_table() -> np.ndarray:
    """Pixels and label of every digit, [1797, 65], as scikit-learn ships them.

    Its file is read without importing it, which takes longer than a run on it.
    """
    found = find_spec("sklearn")
    path = Path(found.origin or "" if found else "")
    path = path.parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


@cite("li2020fedprox")
def synthetic(
    clients: int = 30,
    *,
    alpha: NonNegative = 1.0,
    beta: NonNegative = 1.0,
    iid: bool = False,
    seed: int = 0,
) -> Dataset:
    """Synthetic(alpha, beta): a different softmax model on every client.

    The data of FedProx. For client k:

        u_k ~ N(0, alpha)   B_k ~ N(0, beta)   v_k ~ N(B_k, 1)
        W_k ~ N(u_k, 1)     b_k ~ N(u_k, 1)    x ~ N(v_k, Sigma), Sigma_jj = j^-1.2
        y = argmax softmax(W_k x + b_k)

    alpha and beta are standard deviations, as in the authors' release. With `iid` all
    clients share one W, b ~ N(0, 1) and v = 0. A fifth of each client is test data.

    >>> data = synthetic(clients=5)
    >>> data.train.x.shape[1:], sorted(set(data.groups.tolist()))
    ((60,), [0, 1, 2, 3, 4])
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must lie in [0, inf): got {value}")
    if clients < 1:
        raise ValueError(f"clients must be at least 1: got {clients}")
    if seed < 0:
        raise ValueError(f"seed must not be negative: got {seed}")
    rng = np.random.default_rng(seed)
    check_fits(f"synthetic with {clients:,} clients", _CLIENT_BYTES * clients, _ADVICE)
    sizes = rng.lognormal(4, 2, clients).astype(int) + 50
    needed = _COPIES * 4 * _FEATURES * int(sizes.sum())
    check_fits(f"synthetic with {clients:,} clients", needed, _ADVICE)
    scale = np.arange(1, _FEATURES + 1) ** -0.6  # square root of Sigma_jj
    shared = _softmax_model(rng, 0.0)
    train_x, train_y, test_x, test_y = [], [], [], []
    for size in sizes:
        u, B = rng.normal(0, float(alpha)), rng.normal(0, float(beta))
        v = np.zeros(_FEATURES) if iid else rng.normal(B, 1, _FEATURES)
        W, b = shared if iid else _softmax_model(rng, u)
        x = v + scale * rng.normal(size=(size, _FEATURES))
        y = np.argmax(x @ W + b, axis=1)  # softmax keeps the order
        held = size // 5  # at least 10: every size is at least 50
        x = x.astype(np.float32)
        train_x.append(x[held:])
        train_y.append(y[held:])
        test_x.append(x[:held])
        test_y.append(y[:held])
    return arrays(
        np.concatenate(train_x),
        np.concatenate(train_y),
        np.concatenate(test_x),
        np.concatenate(test_y),
        classes=_CLASSES,
        groups=np.repeat(np.arange(clients), sizes - sizes // 5),
    )


@cite("li2020fedprox")
def synthetic_population(
    clients: int = 1000,
    *,
    examples: Count = 20,
    alpha: NonNegative = 1.0,
    beta: NonNegative = 1.0,
    seed: int = 0,
) -> Generated:
    """Synthetic(alpha, beta) for very many clients, of `examples` examples each.

    What `synthetic` draws, but as a function of the client's number: nothing is stored,
    and there may be ten million.

    >>> synthetic_population(10_000_000).data.size.shape
    (10000000,)
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must lie in [0, inf): got {value}")
    scale = np.arange(1, _FEATURES + 1, dtype=np.float32) ** -0.6
    spreads = float(alpha), float(beta)

    def generate(client: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        k_u, k_mean, k_v, k_w, k_b, k_x = jax.random.split(key, 6)
        u = spreads[0] * jax.random.normal(k_u)
        v = spreads[1] * jax.random.normal(k_mean) + jax.random.normal(
            k_v, (_FEATURES,)
        )
        W = u + jax.random.normal(k_w, (_FEATURES, _CLASSES))
        b = u + jax.random.normal(k_b, (_CLASSES,))
        x = v + scale * jax.random.normal(k_x, (examples, _FEATURES))
        return x, jnp.argmax(x @ W + b, axis=1).astype(jnp.int32)

    return generated(clients, examples, generate, seed=seed)


def _softmax_model(
    rng: np.random.Generator, mean: float
) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(mean, 1, (_FEATURES, _CLASSES)), rng.normal(mean, 1, _CLASSES)
