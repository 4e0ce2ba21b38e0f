"""Minutes that the cards of `fedjax-mos reproduce` cost here, an estimate.

    python benchmarks/papers/card_costs.py [--write]

Times two things of every network, image size and batch size that cards have, on noise:
the gradient of an example (what further rounds of FedAvg add) and an evaluated one. A
card's minutes are these times what its members compute: gradients of single examples
per round, as `docs/methods.md` counts them, and evaluations. Not in it: channels, the
warm-up of CACS, teachers' forward passes, devices that wait for each other, crossings
to the round. Runs that end at their targets are counted in full. `--write` puts the
minutes into the cards. Wants a quiet machine and a quarter of an hour.
"""

import argparse
import json
import re
import time
from functools import cache
from pathlib import Path

import jax
import numpy as np

import fedjax_mos as fm
from fedjax_mos.lab import papers
from fedjax_mos.lab.gradient_count import gradients
from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import SCALES, Card, Part, all_cards

# Training and test examples, shape.
DATA = {
    "mnist": (60_000, 10_000, (28, 28, 1)),
    "fashion_mnist": (60_000, 10_000, (28, 28, 1)),
    "cifar10": (50_000, 10_000, (32, 32, 3)),
    "cifar100": (50_000, 10_000, (32, 32, 3)),
    "tiny_imagenet": (100_000, 10_000, (64, 64, 3)),
}
OWNED = {"fedmos_mnist": 15_476, "fedmos_cifar": 48_500}  # by all clients together
NETWORK = ("hidden", "stem", "width", "depth", "model.dropout")
CLIENTS = 2  # as many as there are cores


def per_example(one: fm.Experiment) -> tuple[float, float]:
    """Seconds of a gradient and of an evaluation, both of one example."""
    own = {n: v for n, v in one.options.items() if n in NETWORK}
    large = one.model == "resnet18"
    # What an example of a deep network costs hardly depends on the batch.
    batch = min(20, one.batch_size) if large else one.batch_size
    return _timed(
        DATA[str(one.dataset)][2],
        str(one.model),
        batch,
        one.augment,
        json.dumps(own, sort_keys=True),
    )


@cache
def _timed(
    shape: tuple[int, ...], model: str, batch: int, augment: bool, options: str
) -> tuple[float, float]:
    steps, examples = {"resnet18": (1, 50), "mlp": (200, 4000)}.get(model, (20, 2000))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (2 * examples, *shape), np.uint8)
    y = rng.permutation(np.arange(2 * examples) % 10)
    noise = fm.arrays(
        x[:examples], y[:examples], x[examples:], y[examples:], classes=10
    )
    made = fm.Experiment(
        algorithm="fedavg", sampler="everyone", dataset=noise, model=model,
        partition="iid", clients=CLIENTS, cohort=CLIENTS, batch_size=batch, steps=steps,
        rounds=10, augment=augment, options={"lr": 0.01} | json.loads(options),
    ).build()  # fmt: skip
    state, key = made.begin(np.int32(0))
    stores, _ = made.sim.backend.place(made.stores, (state, key), False)
    evaluate = jax.jit(made.evaluate)

    def rounds(count: int) -> float:
        return _seconds(lambda: made.run(state, key, count, every=9, progress=False))

    # Either way there is one evaluation, after the last round.
    gradient = (rounds(3) - rounds(1)) / 2 / (CLIENTS * steps * batch)
    evaluated = _seconds(lambda: jax.block_until_ready(evaluate(state, stores)))
    found = max(gradient, 0.0), evaluated / (2 * examples)
    said = f"{model} {options} {shape} batch {batch}{' augmented' * augment}"
    print(f"{said}: {1e6 * found[0]:.3g} and {1e6 * found[1]:.3g} us", flush=True)
    return found


def _seconds(work, repeats: int = 2) -> float:
    """Of the fastest repetition, compilation not included."""
    times = []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times[1:])


def seconds_of(one: fm.Experiment) -> float:
    """Of a run with one seed."""
    train, test, _ = DATA[str(one.dataset)]
    owned = OWNED.get(str(one.partition), train)
    assert one.clients and one.cohort
    size = owned / one.clients
    # The last batch of an epoch is computed whole: half a batch more, where sizes vary.
    epoch = size + (one.batch_size - 1) / 2 * (one.partition in OWNED)
    each = gradients(one.parts["algorithm"].spec)
    seen = one.steps * one.batch_size if one.steps else (one.epochs or 1) * epoch
    own = each.per_step * seen + each.more * one.batch_size + each.full * size
    gradient, evaluated = per_example(one)
    evaluations = -(-one.rounds // one.eval_every)
    examples = owned * (2 if one.dropout_loss else 1) + test
    return one.rounds * one.cohort * own * gradient + evaluations * examples * evaluated


def minutes(card: Card, scale: str) -> float:
    """Of all parts, members and seeds, to two digits."""

    def of_part(part: Part) -> float:
        return sum(map(seconds_of, experiments(part, scale).values()))

    return float(f"{card.seeds * sum(map(of_part, card.parts)) / 60:.2g}")


def write(costs: dict[str, dict[str, float]]) -> None:
    """The minutes into the cards' files, each behind its source."""
    for path in Path(papers.__path__[0]).glob("*.toml"):
        text = re.sub(r"^minutes = .*\n", "", path.read_text(), flags=re.M)
        for name, known in costs.items():
            line = ", ".join(f"{scale} = {m:.0f}" for scale, m in known.items())
            head = rf"(\[cards\.{name}\]\n(?:like = .*\n)?source = .*\n)"
            text = re.sub(head, rf"\1minutes = {{ {line} }}\n", text)
        path.write_text(text)


def main() -> None:
    """All cards."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    fm.use_all_cores()
    costs = {
        name: {scale: minutes(card, scale) for scale in SCALES}
        for name, card in all_cards().items()
    }
    for name, known in costs.items():
        print(name, known, flush=True)
    if given.write:
        write(costs)


if __name__ == "__main__":
    main()
