"""Write docs/methods.md from the catalog: what every method keeps, sends and computes.

    python docs/make_methods.py

State and messages are read off shapes, gradient evaluations off the traced program of
one client (`lab/gradient_count.py`).
"""

from pathlib import Path

import jax
import jax.numpy as jnp

from fedjax_mos import models
from fedjax_mos.engine.rehearsal import rehearsal
from fedjax_mos.lab import catalog
from fedjax_mos.lab.gradient_count import gradients, toy_client

TARGET = Path(__file__).parent / "methods.md"
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


def evaluations(name: str) -> str:
    """Gradient evaluations per round, as text in K."""
    found = gradients(catalog.ALGORITHMS[name].spec())
    factor = "" if found.per_step == 1 else f"{found.per_step} "
    steps_text = f"{factor}(K - 1)" if found.more else f"{factor}K"
    assert found.more in (0, -found.per_step), f"{name}: {found}"
    full = "full" if found.full == 1 else f"{found.full} full"
    parts = [steps_text if found.per_step else "", full]
    return " + ".join(part for part in parts if part and part != "0 full")


def row(name: str) -> str:
    """One line of the table."""
    entry = catalog.ALGORITHMS[name]
    local, params, data = toy_client(3)
    algo, key = entry.spec().build(local), jax.random.key(0)
    server, mine = algo.init(params, key)
    messages = jax.eval_shape(rehearsal(algo, name), server, mine, data, key)
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
