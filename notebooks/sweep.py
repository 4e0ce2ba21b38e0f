# %% [markdown]
# # A sweep as one program
#
# Which step size and which STORM mixing suit FedMoS on `digits`? Twelve
# configurations with three seeds each are 36 training runs. They differ in numbers
# only, so they share one compiled program and run side by side.

# %%
import tempfile

from IPython.display import display

import fedjax_mos as fm

experiment = fm.Experiment(algorithm="fedmos", sampler="ucs", rounds=30)

# %%
cube = fm.sweep(
    experiment,
    lr=[0.05, 0.15, 0.45, 1e6],
    storm=[0.3, 0.6, 0.9],
    seeds=3,
    progress=False,
)
cube.frame[["configuration", "lr", "storm", "seed", "round", "test_accuracy"]].head()

# %% [markdown]
# The cube is a tidy frame: one row per configuration, seed and round. `cells` has one
# row per configuration, best first, by the accuracy on validation examples; the test
# examples play no part in the choice. The last step size is absurd: a cell with a run
# that is no longer finite has no numbers, and the others do not notice.

# %%
display(cube.cells().round(3))
cube.best()

# %%
cube.rounds_to_target(0.7)

# %% [markdown]
# ## Choices, and a folder
#
# Methods, samplers, numbers of local steps or ways to divide the data change the
# program itself: each combination of them is compiled once. With `out`, every
# finished piece is a file in that folder. The same call after an interrupt is resumed
# where it ended; here the second call finds everything done.

# %%
folder = tempfile.mkdtemp()
for _ in range(2):
    choices = fm.sweep(
        fm.Experiment(rounds=20, model="logistic", sampler="ucs"),
        algorithm=["fedavg", "fedprox"],
        lr=fm.Range(0.01, 1, log=True),
        random=8,
        seeds=2,
        out=folder,
        progress=False,
    )
choices.cells().groupby("algorithm").head(2).round(3)

# %% [markdown]
# ## Two numbers at a glance
#
# A row that is flat in `storm` and steep in `lr` says where to look next.

# %%
cube.heat_map("lr", "storm")
