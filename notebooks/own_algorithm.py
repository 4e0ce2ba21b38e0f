# %% [markdown]
# # Your own algorithm
#
# We write a method that is not in the catalog, step by step: FedAvg whose clients
# send an update of bounded norm, as differential privacy needs it, and a server that
# remembers the direction it went. Then everything that built-in methods have
# (comparisons, sweeps, gradients, exact bits) is there for ours too.

# %%
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import optax
from IPython.display import display

import fedjax_mos as fm

# %% [markdown]
# ## The equations
#
# Client i starts at the server's model x, takes K steps of SGD to y and sends
#
#     delta_i = (y - x) min(1, c / |y - x|)
#
# The server averages these and moves by a momentum m:
#
#     m' = b m + mean_i delta_i        x' = x + m'
#
# ## The code
#
# A factory takes the client's tools, `local`, and its options by name. What is
# annotated as a number is a hyperparameter: it can be swept, scheduled and
# differentiated. Client code sees **one** client, its data by a `view`; there is no
# client axis anywhere.


# %%
class Server(NamedTuple):
    params: Any
    momentum: Any


def bounded(
    local,
    *,
    lr: fm.types.Positive = 0.3,
    bound: fm.types.Positive = 1.0,
    keep: fm.types.Unit = 0.0,
):
    """Averaging of updates of bounded norm, with server momentum."""

    def client(x, mine, view, key):
        y, _, metrics = fm.client.walk(local, local.gradient, x, view, key, lr)
        delta = optax.tree.sub(y, x)
        shrink = optax.tree.norm(delta).clip(min=bound) / bound
        return optax.tree.scale(1 / shrink, delta), mine, metrics

    def server(state, agg):
        momentum = optax.tree.add_scale(agg.mean, keep, state.momentum)
        return Server(optax.tree.add(state.params, momentum), momentum)

    exchange = fm.Exchange(lambda state: state.params, client, server)
    return fm.Algorithm(
        lambda params, key: (Server(params, optax.tree.zeros_like(params)), ()),
        (exchange,),
    )


# %% [markdown]
# * `walk` runs the local steps and measures the loss; `local.gradient` is plain SGD's
#   direction, and yours may be another function of the same arguments.
# * `mine` is what a client keeps between rounds: here nothing, so `init` gives `()`.
# * The server sees `agg.mean`, never the messages one by one. That is what lets
#   clients run in chunks or on many devices.
# * An `Exchange` is one trip down and up: what is sent, what a client does with it,
#   what the server does with the answers. What is sent is what is paid for.
#
# ## It runs
#
# A factory takes the place of a name. A large bound and no momentum must give FedAvg
# exactly, which is a good first test:

# %%
setting = dict(sampler="ucs", rounds=40, eval_every=2)
same = fm.Experiment(algorithm=fm.spec(bounded, bound=1e6), **setting)
fedavg = fm.Experiment(algorithm="fedavg", options={"lr": 0.3}, **setting)
ours, theirs = same.run(progress=False), fedavg.run(progress=False)
difference = (ours.frame["test_loss"] - theirs.frame["test_loss"]).abs().max()
print(f"largest difference of the losses from FedAvg's: {difference:.1e}")

# %% [markdown]
# ## Its numbers
#
# All configurations of a sweep are lanes of one program. How small may the bound be,
# and does momentum make up for it?

# %%
own = fm.Experiment(algorithm=bounded, **setting)
cube = fm.sweep(
    own, bound=[0.03, 0.1, 0.3, 1.0, 3.0], keep=[0.0, 0.5, 0.9], seeds=2, progress=False
)
display(cube.heat_map("bound", "keep"))

# %% [markdown]
# The derivative of a whole run by our two numbers, without another line of code:

# %%
found = fm.hypergrad(own, {"bound": 0.3, "keep": 0.5})
for name, slope in found.gradient.items():
    print(f"valid_loss by {name:5} {slope:+.3f}")

# %% [markdown]
# ## Beside the others
#
# Same data, same batches, same cohorts. A tight bound slows training down, and
# momentum buys most of that back.

# %%
members = {
    "FedAvg": fedavg,
    "bound 0.1": fm.Experiment(algorithm=fm.spec(bounded, bound=0.1), **setting),
    "bound 0.1, momentum": fm.Experiment(
        algorithm=fm.spec(bounded, bound=0.1, keep=0.8), **setting
    ),
}
compared = fm.compare(members, seeds=3, progress=False)
print(compared.text())
figure, axis = plt.subplots(figsize=(6, 3.2))
for name, rows in compared.frame.groupby("method"):
    means = rows.groupby("round").test_accuracy.mean().dropna()
    axis.plot(means.index, means, label=name)
axis.set(xlabel="round", ylabel="test accuracy")
axis.legend()
plt.show()
