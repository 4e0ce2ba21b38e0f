# %% [markdown]
# # Search broadly, then polish by gradient
#
# Two numbers decide how well FedAvg does on `digits`: the clients' step size and the
# server's. A halving finds a good pair for a sixth of what trying all would cost.
# Then both become schedules, fifty numbers that no search could try, and the gradient
# of the whole run moves them together. Nothing is downloaded.

# %%
import dataclasses

import matplotlib.pyplot as plt
from IPython.display import display

import fedjax_mos as fm

fm.use_all_cores()
experiment = fm.Experiment(algorithm="fedavg", sampler="ucs", rounds=50, eval_every=50)

# %% [markdown]
# ## Halving over lanes
#
# 64 configurations with five seeds each are lanes of one program. All run a few
# rounds, the best quarter goes on, and so on; the last four run to the end. They are
# ranked by the accuracy on validation examples, and the test examples play no part.

# %%
found = fm.search(
    experiment,
    random=64,
    seeds=5,
    lr=fm.Range(0.01, 3, log=True),
    server_lr=fm.Range(0.3, 3, log=True),
    progress=False,
)
print(found.text(top=4))
display(found.halving())

# %% [markdown]
# ## Fifty numbers by gradient
#
# Each rate gets 25 segments of two rounds. `tune` starts at the winner and moves all
# fifty in a trust region on the log scale: a point is accepted only if the validation
# loss falls, so that the result is never worse than the start.

# %%
tuned = fm.tune(
    found,
    schedules={"lr": "segments:25", "server_lr": "segments:25"},
    updates=16,
    seeds=10,
    progress=False,
)
tuned.frame[["valid_loss", "growth", "accepted"]]

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for name, axis in {"lr": axes[0], "server_lr": axes[1]}.items():
    axis.axhline(found.winner.options[name], color="gray", label="found by halving")
    axis.step(range(1, 51), tuned.hp[name].values, where="mid", label="polished")
    axis.set(xlabel="round", ylabel=name, ylim=(0, None))
axes[0].legend()
plt.show()

# %% [markdown]
# Both rates first rise above the constants, which have to suit the last rounds too,
# and fall in the last ten.
#
# ## On fresh seeds
#
# Twenty seeds that neither the search nor the gradient has seen:

# %%
again = {"constant, by halving": found.winner, "50 numbers": tuned.experiment}
comparison = fm.compare(
    {n: dataclasses.replace(e, seed=1000, eval_every=1) for n, e in again.items()},
    seeds=20,
    progress=False,
)
print(comparison.printed(baseline="constant, by halving").text())

# %% [markdown]
# Seeds differ more from each other than the two ways do, so look at the difference
# seed by seed: what the schedule gains over the constants with the same cohorts,
# batches and initial model.

# %%
accuracy = comparison.frame.pivot_table("test_accuracy", ["round", "seed"], "method")
gain = 100 * (accuracy["50 numbers"] - accuracy["constant, by halving"])
mean, error = gain.groupby("round").mean(), gain.groupby("round").sem()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.plot(mean)
left.fill_between(mean.index, mean - error, mean + error, alpha=0.2)
left.axhline(0, color="gray")
left.set(xlabel="round", ylabel="gain, points", title="mean ± standard error")
right.bar(range(1, 21), sorted(gain[50]))
right.axhline(0, color="gray")
right.set(xlabel="seeds, sorted", ylabel="gain, points", title="after round 50")
right.set_xticks([1, 5, 10, 15, 20])
plt.show()

# %% [markdown]
# The gradient looks at round 50 alone. So the schedule is behind for thirty rounds,
# with steps that are too large for a model to be used there, and ahead at the end on
# most seeds.
