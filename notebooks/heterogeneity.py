# %% [markdown]
# # Comparing methods under heterogeneity
#
# The same digits are divided among 20 clients of equal size: almost evenly, with a
# preference for some classes, and with few classes per client. First we look at the
# drift itself, then at what the methods make of it.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.flatten_util import ravel_pytree

import fedjax_mos as fm

# %%
ALPHAS = {"mild": 10.0, "medium": 0.5, "strong": 0.05}


def experiment(alpha, algorithm="fedavg", **more):
    return fm.Experiment(
        algorithm=algorithm,
        sampler="ucs",
        partition="dirichlet_balanced",
        clients=20,
        cohort=5,
        rounds=40,
        options={"alpha": alpha} | more,
    )


# %% [markdown]
# ## Who has which digit
#
# Each row is a client, each column a class; the darker, the more examples.

# %%
assembled = {name: experiment(alpha).build() for name, alpha in ALPHAS.items()}
figure, axes = plt.subplots(1, 3, figsize=(8, 3), sharey=True)
for axis, (name, made) in zip(axes, assembled.items(), strict=True):
    owned = fm.partitions.Partition(
        np.asarray(made.data.order), np.asarray(made.data.size)
    )
    counts = fm.partitions.histogram(owned, np.asarray(made.data.y))
    axis.imshow(counts, aspect="auto", cmap="Blues", interpolation="nearest")
    axis.set(title=name, xlabel="class", xticks=range(10), yticks=range(0, 20, 5))
axes[0].set_ylabel("client")
plt.show()

# %% [markdown]
# ## Drift, made visible
#
# Every client starts from the same model and descends on its own data alone, with a
# slight pull back to the start so that an optimum exists. How far from their common
# mean do the local optima lie, in units of how far they moved, and do the first
# updates even point the same way?


# %%
def local_optima(made, steps=100, lr=0.5):
    """Every client's way to its own optimum, and its first update, as vectors."""
    state, key = made.start(jax.random.key(0))
    x, unravel = ravel_pytree(state.server.params)
    plan = fm.plans.with_replacement(1, 1)  # not used: all gradients are full
    local = fm.local_work(fm.losses.mean_loss(made.apply), plan)

    def one(client):
        view = fm.data.views(made.data, client)

        def step(y, _):
            g = ravel_pytree(local.full_gradient(unravel(y), view, key)[1])[0]
            return y - lr * (g + 0.02 * (y - x)), g

        y, g = jax.lax.scan(step, x, None, length=steps)
        return y - x, g[0]

    return jax.jit(lambda: jax.lax.map(one, jnp.arange(20)))()


# %%
print(f"{'':8} distance of local optima   cosine between first updates")
for name, made in assembled.items():
    moved, updates = map(np.asarray, local_optima(made))
    apart = np.linalg.norm(moved - moved.mean(0), axis=1)
    distance = (apart / np.linalg.norm(moved, axis=1)).mean()
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    pairs = (unit @ unit.T)[np.triu_indices(20, k=1)]
    print(f"{name:8} {distance:24.2f}   {pairs.mean():.2f} ± {pairs.std():.2f}")

# %% [markdown]
# ## What the methods make of it
#
# Plain averaging, a proximal pull, control variates, client momentum, a look-ahead,
# and double momentum, with the same data, batches and cohorts, five seeds each. Every
# method has the numbers that a search of one cost found for it, on another partition of
# these digits (docs/tuned.md): they are what an experiment takes if nothing is said.

# %%
METHODS = ("fedavg", "fedprox", "scaffold", "fedcm", "fedacg", "fedmos")
found = {
    degree: fm.compare(
        {name: experiment(alpha, name) for name in METHODS}, seeds=5, progress=False
    )
    for degree, alpha in ALPHAS.items()
}

# %%
late = {
    degree: compared.frame.query("round > 30").groupby("method").test_accuracy.mean()
    for degree, compared in found.items()
}
print(f"{'':10}" + "".join(f"{degree:>10}" for degree in late))
for method in METHODS:
    print(f"{method:10}" + "".join(f"{100 * late[d][method]:9.1f}%" for d in late))

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for axis, (degree, compared) in zip(axes, found.items(), strict=True):
    seeds = compared.frame.groupby(["method", "round"]).test_accuracy
    mean, spread = seeds.mean(), seeds.std()
    for method in METHODS:
        (line,) = axis.plot(mean[method], label=method)
        band = mean[method] - spread[method], mean[method] + spread[method]
        axis.fill_between(mean[method].index, *band, color=line.get_color(), alpha=0.15)
    axis.set(title=degree, xlabel="round", xticks=range(0, 41, 10), ylim=(0.5, 1))
    axis.grid(alpha=0.3)
axes[0].set_ylabel("test accuracy, mean and spread of 5 seeds")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
plt.show()

# %% [markdown]
# Where clients nearly agree the methods hardly differ in the end. The less they agree,
# the slower and rougher all curves become: plain averaging and its proximal relative
# lose four points, control variates (SCAFFOLD) and momentum that all clients share
# (FedCM, FedACG) about one or none. SCAFFOLD is slow at first where it has nothing to
# correct, with numbers that were searched for where it has: search on your own
# partition before you believe a ranking (the notebook *search*).
