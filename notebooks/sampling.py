# %% [markdown]
# # Client sampling and its variance
#
# In each round the server hears ten of a hundred clients. Whom it asks, and how it
# weights the answers, decides how far the average is from that over all clients. Here
# that noise is computed exactly, before any training, and then seen in training.

# %%
import dataclasses

import matplotlib.pyplot as plt
import numpy as np

import fedjax_mos as fm

experiment = fm.Experiment(
    algorithm="fedavg",
    partition="quantity",
    clients=100,
    cohort=10,
    rounds=60,
    options={"lr": 0.3},
)
sizes = np.asarray(experiment.build().data.size)
print(f"{sizes.min()} to {sizes.max()} examples per client, mean {sizes.mean():.1f}")

# %% [markdown]
# ## Exact moments
#
# A client i has the share p_i of all examples and gets the random weight w_i in a
# round. An unbiased sampler has E[w_i] = p_i. What is left is the variance. `ucs`
# draws clients uniformly and weights those of its cohort by N/M p_i, `md` draws with
# probabilities p_i, `acs` draws one client from each of ten strata of equal mass, and
# `systematic` moves one random offset along the line.

# %%
SAMPLERS = ("ucs", "md", "acs", "systematic")
theory = fm.selection(sizes, 10, SAMPLERS)
theory.table().round(4)

# %% [markdown]
# All four are unbiased. Uniform draws have the largest variance, since a large client
# counts for much whenever it is drawn; strata remove some of what multinomial draws
# have left. On the right of the picture is the variance of every client's weight.

# %%
theory.picture()

# %% [markdown]
# ## Counted
#
# The same from a run: `cohorts=True` keeps who took part, with which weight.

# %%
counted = dataclasses.replace(experiment, cohorts=True, rounds=400, eval_every=400)
observed = {}
for name in ("md", "acs"):
    run = dataclasses.replace(counted, sampler=name).run(progress=False)
    weights = np.zeros((400, 100))
    rows = run.cohorts
    np.add.at(weights, (rows["round"] - 1, rows["client"]), rows["weight"])
    observed[name] = weights.var(axis=0).sum()
    exact = theory.table().loc[name, "sum_of_variances"]
    print(f"{name:4} sum of variances: {exact:.4f}, observed {observed[name]:.4f}")

# %% [markdown]
# ## What it does to training
#
# `update_variance` is a diagnostic: the variance of the server's next step, from
# rounds that are tried and forgotten. It has two sources, the choice of clients and
# their minibatches; only the first depends on the sampler.

# %%
members = {
    name: dataclasses.replace(
        experiment, sampler=name, diagnostics=("update_variance",), eval_every=5
    )
    for name in SAMPLERS
}
compared = fm.compare(members, seeds=8, progress=False)
print(compared.text())

# %% [markdown]
# Less variance of the weights is less variance of the step:

# %%
by_seed = compared.frame.groupby(["method", "seed"])["update_variance"].mean()
measured = by_seed.groupby("method").agg(["mean", "sem"]).loc[list(SAMPLERS)]
exact = theory.table().loc[list(SAMPLERS), "sum_of_variances"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.bar(SAMPLERS, exact, color="gray")
left.set(title="exact, before training", ylabel="sum of the variances of w_i")
right.bar(SAMPLERS, measured["mean"], yerr=measured["sem"], capsize=4)
right.set(title="in training, mean of 60 rounds", ylabel="variance of the step")
plt.show()
