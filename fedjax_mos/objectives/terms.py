"""Terms of local objectives, each a function of one `TermView`.

A client's gradient is taken in `TermView.params` only, so the received and the
remembered model are constants to it without further ado (and hypergradients still see
them). `methods.py` gives the references.
"""

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.client.losses import masked_mean, mean_cross_entropy
from fedjax_mos.objectives.base import Term, TermView
from fedjax_mos.types import Params, Scalar


def cross_entropy(weight: Scalar = 1.0) -> Term:
    """weight * CE(z, label)."""

    def term(now: TermView) -> jax.Array:
        return weight * mean_cross_entropy(now.hidden[-1], now.batch)

    return term


def contrastive(weight: Scalar, temperature: Scalar) -> Term:
    """MOON: -log e^(cos(z, z_g)/t) / (e^(cos(z, z_g)/t) + e^(cos(z, z_p)/t)).

    z_g are features of the received model, z_p of the client's last local model. The
    term is off until the client has taken part once.
    """

    def term(now: TermView) -> jax.Array:
        def features(params: Params) -> jax.Array:
            return now.forward(params, now.batch.x, 0, None)[-2]

        z = now.hidden[-2]
        near = _cosine(z, features(now.anchor)) / temperature
        far = _cosine(z, features(now.memory.model)) / temperature
        values = jax.nn.softplus(far - near)  # -log e^near / (e^near + e^far)
        return jnp.where(
            now.memory.met, weight * masked_mean(values, now.batch.mask), 0
        )

    return term


def calibrated(temperature: Scalar, *, include_true: bool = True) -> Term:
    """FedLC: cross-entropy of z - t n_c^(-1/4), over the classes the client has.

    The paper prints the denominator without the true class, which leaves the loss
    unbounded below (it diverges on small problems); released programs keep it.
    Without it a client of one class has nothing to learn from: the term is then zero.
    """

    def term(now: TermView) -> jax.Array:
        have = now.labels > 0
        margin = temperature * jnp.maximum(now.labels, 1) ** -0.25
        z = jnp.where(have, now.hidden[-1] - margin, -jnp.inf)
        true = jax.nn.one_hot(now.batch.y, z.shape[-1], dtype=bool)
        others = have & (jnp.ones_like(true) if include_true else ~true)
        top = jnp.take_along_axis(z, now.batch.y[:, None], axis=-1)[:, 0]
        any_other = others.any(-1)
        safe = jnp.where(others, z, jnp.where(any_other, -jnp.inf, 0)[:, None])
        values = jax.nn.logsumexp(safe, axis=-1) - top
        return masked_mean(values, now.batch.mask & any_other)

    return term


def not_true(weight: Scalar, temperature: Scalar) -> Term:
    """FedNTD: t^2 KL(softmax(z_g / t) || softmax(z / t)) without the true class."""

    def term(now: TermView) -> jax.Array:
        teacher = now.forward(now.anchor, now.batch.x, 0, None)[-1]
        true = jax.nn.one_hot(now.batch.y, teacher.shape[-1], dtype=bool)
        p, q = (
            jax.nn.log_softmax(z / temperature, where=~true, axis=-1)
            for z in (teacher, now.hidden[-1])
        )
        values = jnp.where(true, 0, jnp.exp(p) * (p - q)).sum(-1)
        return weight * temperature**2 * masked_mean(values, now.batch.mask)

    return term


def decorrelation(weight: Scalar) -> Term:
    """FedDecorr: mean squared off-diagonal of Z^T Z, over B, Z standardised features.

    Zero for a batch of one example.
    """

    def term(now: TermView) -> jax.Array:
        mask = now.batch.mask[:, None]
        z = jnp.where(mask, now.hidden[-2], 0)
        count = jnp.maximum(mask.sum(), 2)  # with one example z is zero throughout
        centred = jnp.where(mask, z - z.sum(0) / jnp.maximum(mask.sum(), 1), 0)
        variance = (centred**2).sum(0) / (count - 1)
        z = centred / jnp.sqrt(variance + 1e-8)
        width = z.shape[-1]
        square = (z.T @ z) ** 2
        off = (square.sum() - jnp.trace(square)) / max(width * (width - 1), 1)
        return weight * off / count

    return term


def multi_branch(ce_weight: Scalar, kl_weight: Scalar) -> Term:
    """FedMLB: local stages up to l, then the received model's frozen stages.

    With b_l the logits of branch l: ce_weight mean_l CE(b_l) + kl_weight mean_l
    KL(softmax(b_l) || softmax(z)); the gradient flows through both arguments.
    """

    def term(now: TermView) -> jax.Array:
        *trunks, z = now.hidden
        log_q = jax.nn.log_softmax(z)
        total = jnp.zeros((), z.dtype)
        for level, h in enumerate(trunks):
            branch = now.forward(now.anchor, h, level + 1, None)[-1]
            log_p = jax.nn.log_softmax(branch)
            kl = masked_mean((jnp.exp(log_p) * (log_p - log_q)).sum(-1), now.batch.mask)
            total += ce_weight * mean_cross_entropy(branch, now.batch) + kl_weight * kl
        return total / len(trunks)

    return term


def _cosine(a: jax.Array, b: jax.Array) -> jax.Array:
    return optax.cosine_similarity(a, b, epsilon=1e-8)
