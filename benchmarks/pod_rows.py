"""What the chips of a pod hold of clients' rows and data, and what a round moves.

    pip install "jax[tpu]==VERSION OF JAX" && python benchmarks/pod_rows.py [--chips 16]

SCAFFOLD, which keeps a tree of the model's size per client, is compiled by the TPU's
own compiler for v5e chips that need not be there: ten rounds of a cohort with one
client per chip and an evaluation, on 100,000 clients of 20 images and an MLP of 1.2
million parameters. The compiler says what a chip holds and which collectives there are.
Nothing of N rows may be gathered.
"""

import argparse
import os
import re
from collections import Counter
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "pod_rows.md"
GRIDS = {16: "v5e:4x4", 256: "v5e:16x16"}
MOVES = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
SIZES = {"f32": 4, "s32": 4, "u32": 4, "u8": 1, "pred": 1, "bf16": 2}
IMAGE, HIDDEN, CLASSES, EXAMPLES, ROUNDS = 784, (1024, 380), 10, 20, 10
MEMORY = 16 * 10**9  # bytes of a v5e chip


def compiled(chips: int, clients: int):
    """The program for so many chips, and the bytes of one client's row."""
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": f"v5litepod-{chips}",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import fedjax_mos as fm
    from fedjax_mos.tree import bytes_of

    found = topologies.get_topology_desc(platform="tpu", topology_name=GRIDS[chips])
    mesh = Mesh(np.array(found.devices), ("clients",))
    backend = fm.backends.sharded(mesh)

    def net(params, x, key):
        h = x.astype(jnp.float32) / 255
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        return h @ w + b

    def shape(*sizes, dtype=jnp.float32, cut=False):
        where = NamedSharding(mesh, P("clients") if cut else P())
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=where)

    widths = (IMAGE, *HIDDEN, CLASSES)
    pairs = zip(widths[:-1], widths[1:], strict=True)
    params = [(shape(a, b), shape(b)) for a, b in pairs]
    total = clients * EXAMPLES
    rows = -(-total // chips) * chips
    data = fm.types.FederatedData(
        x=shape(rows, IMAGE, dtype=jnp.uint8, cut=True),
        y=shape(rows, dtype=jnp.int32, cut=True),
        order=shape(total, dtype=jnp.int32),
        offset=shape(clients, dtype=jnp.int32),
        size=shape(clients, dtype=jnp.int32),
        largest=EXAMPLES,
        parts=chips,
    )
    work = fm.local_work(fm.losses.mean_loss(net), fm.plans.with_replacement(5, 10))
    sim = fm.simulation(
        fm.spec(fm.algorithms.scaffold, lr=0.1, server_lr=1.0),
        work,
        fm.spec(fm.samplers.uniform),
        cohort=chips,
        backend=backend,
    )
    evaluate = fm.evaluator(fm.losses.measures(net), backend=backend)
    key = jax.eval_shape(lambda: jax.random.key(0))
    begun = jax.eval_shape(sim.init, params, data, key)

    def placed(tree, cut):
        return jax.tree.map(lambda a: shape(*a.shape, dtype=a.dtype, cut=cut), tree)

    state = placed(begun._replace(clients=()), False)
    state = state._replace(clients=placed(begun.clients, True))

    def block(state, data, key):
        def one(_, state):
            return sim.step(data, state, jax.random.fold_in(key, state.round))[0]

        state = jax.lax.fori_loop(0, ROUNDS, one, state)
        return state, evaluate(state, {"train": data})

    traced = jax.jit(block, donate_argnums=0).trace(state, data, placed(key, False))
    made = traced.lower(lowering_platforms=("tpu",)).compile()
    rows = jax.tree.leaves(begun.clients)[0].shape[0]
    return made, bytes_of(begun.clients) // rows


def bytes_in(shape: str) -> int:
    """The bytes of a shape, or of a tuple of shapes, as the compiler writes it."""
    total = 0
    for kind, sizes in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += SIZES.get(kind, 8) * count
    return total


def moves(text: str) -> dict[str, tuple[int, int]]:
    """Collective -> how many there are, and the bytes of the largest result."""
    count: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for shape, kind in re.findall(rf" = (\S.*?) ({MOVES})(?:-start)?\(", text):
        count[kind] += 1
        largest[kind] = max(largest[kind], bytes_in(shape))
    return {kind: (count[kind], largest[kind]) for kind in sorted(count)}


def row(chips: int, clients: int) -> str:
    """One line of the table, checked."""
    made, each = compiled(chips, clients)
    memory, found = made.memory_analysis(), moves(made.as_text())
    held = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    cohort = chips * each
    assert max(size for _, size in found.values()) <= 1.1 * cohort, found
    assert memory.argument_size_in_bytes < 1.2 * clients / chips * each + 10**9
    if chips == 256:
        assert held < MEMORY, held
    text = "; ".join(
        f"{n} {kind}, at most {b / 1e6:.0f} MB" for kind, (n, b) in found.items()
    )
    return (
        f"| {chips} | {clients:,} | {clients * each / 1e9:.0f} | "
        f"{clients * each / chips / 1e9:.2f} | "
        f"{memory.argument_size_in_bytes / 1e9:.2f} | "
        f"{memory.temp_size_in_bytes / 1e9:.2f} | {text} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", type=int, choices=GRIDS, default=256)
    parser.add_argument("--clients", type=int, default=100_000)
    given = parser.parse_args()
    print(row(given.chips, given.clients))


if __name__ == "__main__":
    main()
