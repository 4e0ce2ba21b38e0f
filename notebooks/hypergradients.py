# %% [markdown]
# # Differentiable schedules
#
# A training run is one function of its numbers, so it has a derivative. Here a small
# FedMoS is differentiated through all of its rounds; its numbers are tuned by that
# gradient from a bad start; an unstable horizon is shown; and in the end a step size
# has a value for every round. Nothing is downloaded.

# %%
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

import fedjax_mos as fm

bad = {"lr": 0.003, "storm": 0.1, "prox": 0.5, "server_momentum": 0.1}
setting = dict(rounds=12, steps=3, clients=20, model="logistic", eval_every=12)
experiment = fm.Experiment(**setting, options=bad)

# %% [markdown]
# ## The derivative of a run
#
# `hypergrad` gives the objective after the last round, its derivative by each number,
# and `growth`: how much a small change of the start has grown by then. Up to four
# numbers go in forward mode, more in reverse with memory for the square root of the
# rounds.

# %%
found = fm.hypergrad(experiment)
print(f"valid_loss {found.value:.3f}, {found.mode} mode")
for name, slope in found.gradient.items():
    print(f"  by {name:<16} {slope:+.4f}")
print("growth", np.round(found.growth, 3), "unstable:", found.unstable or "no")

# %% [markdown]
# ## Tuning
#
# Rates move on a log scale, `storm` and momenta on a logit scale. The best point on
# the way is kept; the held-out loss decides, test data play no part. A random sweep
# of the same cost in rounds is drawn beside it: for four numbers it does as well or
# better, so search those (the notebook *search*). What no search can try comes last,
# a value for every round.

# %%
tuned = fm.tune(experiment, updates=16, progress=False)
cube = fm.random_baseline(experiment, bad, tuned, progress=False)
display(tuned.trajectory(cube))
for name, value in tuned.hp.items():
    print(f"{name:<16} {bad[name]:g} -> {value:.3g}")

# %% [markdown]
# ## An unstable horizon
#
# Where the rate is too large rounds no longer contract: a change of the start grows
# exponentially, and so does the gradient. It is reported, and `tune` turns back
# there.

# %%
wild = fm.Experiment(**setting | {"model": "mlp"}, options={"lr": 0.3})
figure, axis = plt.subplots(figsize=(6, 2.8))
for lr in (0.1, 1.0, 3.0):
    found = fm.hypergrad(wild, {"lr": lr})
    axis.semilogy(found.rounds, found.growth, "o-", label=f"lr = {lr:g}")
axis.axhline(100, color="gray", linestyle="--", label="limit")
axis.set(xlabel="round", ylabel="growth of a small change")
axis.legend()
print(found.unstable)
plt.show()

# %% [markdown]
# ## A value for every round
#
# A `fm.Schedule` is as many numbers as there are rounds, and `hypergrad` gives a
# slope for each of them: what would a little more step size in round t have done to
# the loss in the end?

# %%
longer = fm.Experiment(
    algorithm="fedavg", sampler="ucs", rounds=40, eval_every=40, options={"lr": 0.2}
)
constant = fm.Schedule(np.full(40, 0.2))
slopes = fm.hypergrad(longer, {"lr": constant}).gradient["lr"].values

# %% [markdown]
# `tune` follows these slopes. The last rounds want smaller steps, since nothing after
# them averages their noise away.

# %%
learned = fm.tune(
    longer, schedules={"lr": "spline:6"}, updates=12, seeds=4, progress=False
)
print(learned.text())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.bar(range(1, 41), slopes)
left.set(xlabel="round", ylabel="slope of the loss by lr", title="at a constant 0.2")
right.axhline(0.2, color="gray", label="before")
right.plot(range(1, 41), learned.hp["lr"].values, label="learned")
right.set(xlabel="round", ylabel="lr", ylim=(0, None), title="after 12 gradients")
right.legend()
plt.show()
