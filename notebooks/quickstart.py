# %% [markdown]
# # Quickstart
#
# Three ways into `fedjax_mos`, each a few cells long:
#
# 1. an `Experiment`, the same that the command line runs;
# 2. your own arrays, loss and parameters;
# 3. a sweep and a gradient: a whole training run is one function of its numbers.
#
# It takes about a minute on two CPU cores and downloads nothing.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import fedjax_mos as fm

# %% [markdown]
# ## 1. An experiment
#
# By default: FedMoS with adaptive client selection on scikit-learn's 8 x 8 digits,
# 100 clients, 10 of them in a round. `Experiment()` is a frozen dataclass, and what
# is wrong with it is said at once.

# %%
experiment = fm.Experiment(rounds=40)
result = experiment.run(progress=False)
result.frame[["round", "train_loss", "test_accuracy", "bits_up"]].tail(3)

# %% [markdown]
# Learning is hard here because a client holds few examples, and of two classes only.
# One column per client, one row per digit:

# %%
experiment.partition_map()

# %% [markdown]
# Does FedMoS help? With `seeds`, several runs become one program, and every member of
# the comparison draws the same cohorts and the same minibatches. The band is one
# standard deviation over the seeds. `fedjax-mos compare` does the same from a shell.

# %%
members = {"FedMoS": "fedmos", "FedAvg": "fedavg"}
experiments = {
    name: fm.Experiment(algorithm=algorithm, sampler="ucs", rounds=40)
    for name, algorithm in members.items()
}
comparison = fm.compare(experiments, seeds=3, progress=False)
print(comparison.text(target=0.85))
comparison.curves()

# %% [markdown]
# Both run with their best known numbers, and three seeds do not tell them apart: that
# is what the bands and the ± are for. Where clients agree less it makes a difference
# (the notebook *heterogeneity*).

# %% [markdown]
# ## 2. Your own arrays, loss and parameters
#
# Two interleaved spirals. Each client sees one sector of the plane, so none of them
# can learn the whole picture alone. `partitions.natural` makes one client of each
# group; `fm.partitions` has other rules, and `fm.partitions.Partition` takes any
# division of your own.

# %%
rng = np.random.default_rng(0)
y = np.arange(600) % 2
radius = rng.uniform(0.2, 1, 600)
angle = 8 * radius + np.pi * y
x = radius * np.stack([np.cos(angle), np.sin(angle)])
x = (x.T + rng.normal(0, 0.02, (600, 2))).astype(np.float32)

sector = np.floor(8 * (np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) + 0.5)).astype(int)
data = fm.federate(x, y, fm.partitions.natural(sector))
print("examples of each client:", data.size)

# %% [markdown]
# A loss is a function of parameters, a batch and a key. The last rows of a batch may
# be padding, hence the mask. What to measure is a function too: one value per
# example.


# %%
def logit(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return (x @ w + b)[:, 0]


def loss(params, batch, key):
    values = optax.sigmoid_binary_cross_entropy(logit(params, batch.x), batch.y)
    return fm.losses.masked_mean(values, batch.mask)


def metrics(params, batch):
    z = logit(params, batch.x)
    values = optax.sigmoid_binary_cross_entropy(z, batch.y)
    return {"loss": values, "accuracy": (z > 0) == batch.y}


# %%
def layer(m, n):
    return rng.normal(0, 1.5 / np.sqrt(m), (m, n)), np.zeros(n)


params = jax.tree.map(jnp.float32, [layer(2, 16), layer(16, 16), layer(16, 1)])

# %% [markdown]
# `simulation` puts the components together. `spec` keeps their numbers apart, so that
# they can be changed later without compiling again.

# %%
local = fm.local_work(loss, fm.plans.with_replacement(steps=10, batch_size=16))
numbers = dict(lr=0.15, storm=0.2, prox=0.001, server_momentum=0.8)
method = fm.spec(fm.algorithms.fedmos, **numbers)
sim = fm.simulation(method, local, fm.spec(fm.samplers.uniform), cohort=4)
measured = {"evaluate": fm.evaluator(metrics), "stores": {"train": data}}

# %%
key = jax.random.key(0)
state = sim.init(params, data, key)
state, history = fm.run(
    sim, data, state, key, 200, every=20, progress=False, **measured
)
history.iloc[[19, 99, 199]][["round", "train_loss", "train_accuracy"]]

# %%
axes = np.linspace(-1.2, 1.2, 200)
grid = np.stack(np.meshgrid(axes, axes), axis=-1).reshape(-1, 2)
z = jax.nn.sigmoid(logit(state.server.params, grid)).reshape(200, 200)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.scatter(*x.T, c=sector, cmap="tab10", s=5)
left.set(title="who owns what", aspect="equal")
right.contourf(axes, axes, z, levels=8, cmap="RdBu", alpha=0.6)
right.scatter(*x.T, c=y, cmap="RdBu", s=5, edgecolors="k", linewidths=0.2)
right.set(title="what they learned together", aspect="equal")
plt.show()

# %% [markdown]
# ## 3. A sweep and a gradient
#
# `rollout` is the pure function behind `run`: the loss after 20 rounds as a function
# of the learning rate.


# %%
def final_loss(lr):
    state = sim.init(params, data, key, {"algorithm": {"lr": lr}})
    _, trace = fm.rollout(sim, data, state, key, 20, every=20, **measured)
    return trace.evaluated["train_loss"][-1]


# %% [markdown]
# So `vmap` sweeps it, and `grad` differentiates through all rounds, clients and local
# steps. The black lines are tangents: each has the derivative at its dot as its
# slope.

# %%
rates = jnp.linspace(0.005, 0.1, 96)
losses = jax.jit(jax.vmap(final_loss))(rates)
chosen = rates[5::15]
values, slopes = jax.jit(jax.vmap(jax.value_and_grad(final_loss)))(chosen)

# %%
figure, axis = plt.subplots(figsize=(7, 3.4))
axis.plot(rates, losses)
axis.plot(chosen, values, "ko", markersize=4)
for lr, value, slope in zip(chosen, values, slopes, strict=True):
    near = lr + np.array([-0.004, 0.004])
    axis.plot(near, value + slope * (near - lr), "k", linewidth=2)
axis.set(xlabel="learning rate", ylabel="training loss after 20 rounds")
plt.show()
