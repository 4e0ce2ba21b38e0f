"""Write docs/methods.md from the catalog: what every method keeps, sends and computes.

    python docs/make_methods.py

State and messages are read off shapes, gradient evaluations off the traced program of
one client: the loss carries a marker operation, which is counted in the jaxpr with the
lengths of the scans around it, for two numbers of local steps.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.engine.round import rehearsal
from fedjax_mos.lab import catalog

TARGET = Path(__file__).parent / "methods.md"
FEATURES, CLASSES, BATCH, LARGEST = 5, 3, 4, 9
MARKER = "erf_inv"  # an operation that nothing else here uses
HEAD = """# Methods

Written by `python docs/make_methods.py` from the code; a test keeps it current. States
and messages are counted in parameter-sized trees (and single numbers); a message is
what enters the named channel; "server" and "client" are the states they keep. K is the
number of local steps, "full" a gradient over all of a client's data (STEM's is in round
0 only, where one tree goes down and one up).
"Variant" says which options differ from the factory's defaults; papers stand in
[references.bib](references.bib), and `fm.citation(experiment)` prints them.

| name | server | client | up | down | gradients per round | variant | cite |
|---|---|---|---|---|---|---|---|
"""


def setting(steps: int) -> tuple[fm.types.LocalWork, dict, fm.types.FederatedData]:
    """The tools of a client with a marked loss, parameters and one client's data."""
    model = models.mlp(CLASSES, hidden=(4,))
    params = models.init(model, jax.random.key(0), jnp.zeros((1, FEATURES)))

    def forward(params, h, start, key):
        if key is not None:  # training, not a teacher
            h = h + jax.lax.erf_inv(jnp.zeros(h.shape[0])).sum()
        return models.forward(model, params, h, start, key)

    loss = fm.losses.mean_loss(lambda params, x, key: forward(params, x, 0, key)[-1])
    plan = fm.plans.with_replacement(steps, BATCH)
    data = fm.federate(np.zeros((LARGEST, FEATURES), "float32"), np.zeros(LARGEST, int))
    return fm.local_work(loss, plan, forward), params, data


def marks(jaxpr, times: int = 1) -> dict[int, int]:
    """Batch size -> evaluations of the loss."""
    found: dict[int, int] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == MARKER:
            size = eqn.outvars[0].aval.shape[-1]
            found[size] = found.get(size, 0) + times
        inside = times * eqn.params["length"] if eqn.primitive.name == "scan" else times
        for value in eqn.params.values():
            for sub in value if isinstance(value, tuple | list) else (value,):
                sub = getattr(sub, "jaxpr", sub)
                if hasattr(sub, "eqns"):
                    for size, count in marks(sub, inside).items():
                        found[size] = found.get(size, 0) + count
    return found


def evaluations(name: str) -> str:
    """Gradient evaluations per round, as text in K."""
    counts = []
    for steps in (3, 5):
        local, params, data = setting(steps)
        algo, key = catalog.ALGORITHMS[name].spec().build(local), jax.random.key(0)
        args = (*algo.init(params, key), data, key)
        counts.append(marks(jax.make_jaxpr(rehearsal(algo))(*args).jaxpr))
    slope = (counts[1].get(BATCH, 0) - counts[0].get(BATCH, 0)) // 2
    start = counts[0].get(BATCH, 0) - 3 * slope
    factor = "" if slope == 1 else f"{slope} "
    steps_text = f"{factor}(K - 1)" if start else f"{factor}K"
    assert start in (0, -slope), f"{name}: {slope} K + {start}"
    full = counts[0].get(LARGEST, 0)
    parts = [steps_text if slope else "", "full" if full == 1 else f"{full} full"]
    return " + ".join(part for part in parts if part and part != "0 full")


def row(name: str) -> str:
    """One line of the table."""
    entry = catalog.ALGORITHMS[name]
    local, params, data = setting(3)
    algo, key = entry.spec().build(local), jax.random.key(0)
    server, mine = algo.init(params, key)
    messages = jax.eval_shape(rehearsal(algo), server, mine, data, key)
    d = models.count(params)

    def trees(*kept) -> str:
        floats = [
            x for x in jax.tree.leaves(kept) if jnp.issubdtype(x.dtype, jnp.floating)
        ]
        whole, numbers = divmod(sum(x.size for x in floats), d)
        plural = "numbers" if numbers > 1 else "number"
        return str(whole) + (f" + {numbers} {plural}" if numbers else "")

    def via(kind: str, message) -> tuple[str, tuple]:
        called = getattr(entry, kind)
        made = catalog.CHANNELS[called].spec().build()
        state = jax.eval_shape(made.init, message)
        return ("" if called == "identity" else f" via {called}"), state

    downs, ups = zip(*messages, strict=True)
    via_up, up_state = via("uplink", ups)
    via_down, down_state = via("downlink", downs)
    cells = (
        f"`{name}`",
        trees(server),
        trees(mine, up_state, down_state),
        trees(ups) + via_up,
        trees(downs) + via_down,
        evaluations(name),
        ", ".join(f"{n}={v}" for n, v in entry.options.items()),
        ", ".join(catalog.citations(entry)),
    )
    return "| " + " | ".join(cells) + " |\n"


def table() -> str:
    """The whole document."""
    return HEAD + "".join(row(name) for name in catalog.ALGORITHMS)


if __name__ == "__main__":
    TARGET.write_text(table())
    print(f"wrote {TARGET}")
