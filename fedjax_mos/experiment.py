"""One experiment: the frozen dataclass shared by notebooks and the command line.

>>> result = Experiment(rounds=2).run(progress=False)
>>> list(result.history.columns[:4])
['round', 'local_loss', 'test_accuracy', 'test_loss']
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos import catalog, models, options
from fedjax_mos.algorithms import tracked
from fedjax_mos.data import augment
from fedjax_mos.evaluate import evaluator
from fedjax_mos.hyperparameters import check_hp, per_round, spec
from fedjax_mos.layout import backend_of, backend_parts
from fedjax_mos.losses import classification, cross_entropy, mean_cross_entropy
from fedjax_mos.machine import keep_programs
from fedjax_mos.plans import epochs, with_replacement
from fedjax_mos.population import population
from fedjax_mos.problem import Problem
from fedjax_mos.round import simulation
from fedjax_mos.samplers import Adapted, everyone, pools
from fedjax_mos.setting import Setting
from fedjax_mos.types import (
    Algorithm,
    Key,
    Params,
    RoundState,
    Sampler,
    Simulation,
    Spec,
)

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_STEPS = 5
# Components whose floats are checked against the glossary.
_NUMERIC = (
    "algorithm",
    "sampler",
    "uplink",
    "downlink",
    "broadcast",
    "local",
    "schedule",
)


class Result(NamedTuple):
    """What a run leaves; with several seeds, params have a leading seed axis."""

    experiment: "Experiment"
    history: "pd.DataFrame"
    params: Params
    state: RoundState


@dataclasses.dataclass(frozen=True)
class Experiment(Setting):
    """An algorithm and a sampler on a federated data set."""

    algorithm: str = "fedmos"
    """A name of `fedjax-mos list`."""
    sampler: str = "acs"
    """A name of `fedjax-mos list`."""
    seed: int = 0
    """Seed of everything random in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2**31): got {self.seed}")
        chosen = self.chosen()
        for kind in _NUMERIC:
            check_hp({k: v for k, v in chosen[kind].items() if isinstance(v, float)})
        backend_parts(self.backend)

    @property
    def habit(self) -> catalog.Habit:
        """What fits the data set where nothing is said."""
        return catalog.HABITS.get(self.dataset, catalog.OTHER)

    @property
    def _sampler(self) -> str:
        """The sampler's name; an algorithm may allow only one."""
        only = catalog.lookup("algorithm", catalog.ALGORITHMS, self.algorithm).sampler
        name = only or self.sampler
        owners = catalog.lookup("sampler", catalog.SAMPLERS, name).only_for
        if owners and self.algorithm not in owners:
            raise ValueError(
                f"sampler {name} belongs to {', '.join(owners)}: "
                f"got algorithm {self.algorithm}"
            )
        return name

    def components(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Kind -> (name, default options) of every component."""
        names = {
            "algorithm": (catalog.ALGORITHMS, self.algorithm),
            "sampler": (catalog.SAMPLERS, self._sampler),
            "partition": (catalog.PARTITIONS, self.partition or self.habit.partition),
            "model": (catalog.MODELS, self.model or self.habit.model),
        }
        found = {
            kind: (name, catalog.lookup(kind, table, name).defaults(self.dataset))
            for kind, (table, name) in names.items()
        }
        algorithm = catalog.ALGORITHMS[self.algorithm]
        for kind, usual in (
            ("uplink", algorithm.uplink),
            ("downlink", algorithm.downlink),
            ("broadcast", "identity"),
        ):
            name = getattr(self, kind) or usual
            entry = catalog.lookup(kind, catalog.CHANNELS, name)
            found[kind] = (name, entry.options)
        dataset = catalog.DATASETS.get(self.dataset)
        found["dataset"] = (self.dataset, dataset.options if dataset else {})
        found["local"] = ("local", catalog.LOCAL.options)
        found["schedule"] = ("schedule", catalog.SCHEDULE.options)
        return found

    def chosen(self) -> dict[str, dict[str, Any]]:
        """Kind -> options of every component, defaults and `options` together."""
        return options.place(self.options, self.components())

    def build(self, *, lanes: int = 1) -> Problem:
        """Load the data and put the simulation together; nothing is compiled yet.

        So many `lanes` will run as one program, which may want another layout.
        """
        keep_programs()
        chosen, named = self.chosen(), self.components()
        dataset, data, stores = population(
            self.dataset,
            self.data_dir,
            named["partition"][0],
            self.clients,
            self.data_seed,
            _frozen(chosen["dataset"]),
            _frozen(chosen["partition"]),
        )
        cohort = self._cohort(data.size.shape[0])
        model = catalog.MODELS[named["model"][0]].factory(
            classes=dataset.classes, **chosen["model"]
        )
        mean, std = np.float32(dataset.mean), np.float32(dataset.std)

        def normalised(x: jax.Array) -> jax.Array:
            return (x.astype(mean.dtype) - mean) / std

        def apply(params: Params, x: jax.Array, key: Key | None) -> jax.Array:
            return models.apply(model, params, normalised(x), key)

        def forward(
            params: Params, h: jax.Array, start: int, key: Key | None
        ) -> tuple[jax.Array, ...]:
            h = h if start else normalised(h)
            return models.forward(model, params, h, start=start, key=key)

        ragged = 1.0
        if self.epochs is not None:
            plan = epochs(self.epochs, self.batch_size)
            steps = np.ceil(np.asarray(data.size) / self.batch_size)
            ragged = float(steps.max() / steps.mean())
        else:
            plan = with_replacement(self.steps or DEFAULT_STEPS, self.batch_size)
        loss = cross_entropy(apply)
        first = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), mean.dtype)
        try:
            key = jax.random.key(0)
            shapes = jax.eval_shape(partial(models.init, model), key, first)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"model {named['model'][0]} does not fit inputs of shape "
                f"{first.shape[1:]}: {error}"
            ) from error

        tools = _switched_on(chosen["local"])
        if "scale" in tools:  # one factor per parameter tensor, all alike at first
            tools["scale"] = jax.tree.map(lambda _: tools["scale"], shapes)

        def made(kind: str, table: Mapping[str, catalog.Entry], *static: Any) -> Spec:
            return spec(table[named[kind][0]].factory, *static, **chosen[kind])

        # What some samplers ask for besides their own options.
        offered = {
            "cohort": cohort,
            "loss": lambda params, batch, key: mean_cross_entropy(
                apply(params, batch.x, None), batch
            ),
            "params": shapes,
            "lr": chosen["algorithm"]["lr"],
        }
        asked = inspect.signature(self._choose).parameters
        given = {name: value for name, value in offered.items() if name in asked}
        choose = spec(self._choose, **given, **chosen["sampler"])
        adapted = self._adapted(choose)
        method = made("algorithm", catalog.ALGORITHMS)
        local = spec(
            catalog.LOCAL.factory,
            loss,
            plan,
            forward=forward,
            augment=_published_augmentation() if self.augment else None,
            **tools,
        )

        def simulate(sampler: Sampler | Spec, slots: int) -> Simulation:
            return simulation(
                _tracked(method) if adapted and adapted.follows else method,
                local,
                sampler,
                uplink=made("uplink", catalog.CHANNELS),
                downlink=made("downlink", catalog.CHANNELS),
                broadcast=made("broadcast", catalog.CHANNELS),
                schedule=spec(catalog.SCHEDULE.factory, **chosen["schedule"])
                if _switched_on(chosen["schedule"])
                else per_round,
                backend=backend_of(self.backend, shapes, slots, lanes, ragged),
            )

        sim = simulate(adapted.sampler if adapted else self._pooled(choose), cohort)
        adaptation = adapted and adapted.adaptation
        if adaptation and adaptation.warm_up:
            clients = data.size.shape[0]
            adaptation = adaptation._replace(warm=simulate(everyone(), clients))

        def start(
            key: Key, hp: Mapping[str, Any] | None = None
        ) -> tuple[RoundState, Key]:
            k_params, k_run = jax.random.split(key)
            params = models.init(model, k_params, jnp.zeros(first.shape, first.dtype))
            return sim.init(params, data, k_run, hp), k_run

        metrics = evaluator(classification(apply), backend=sim.backend)
        return Problem(sim, data, stores, metrics, start, apply, adaptation)

    def _cohort(self, clients: int) -> int:
        """Clients per round, out of so many."""
        if "cohort" not in inspect.signature(self._choose).parameters:
            if self.cohort != clients:
                print(
                    f"{self.algorithm} with {self._sampler} takes every client: "
                    f"{clients} per round, not {self.cohort}",
                    file=sys.stderr,
                )
            return clients
        if self.cohort > clients:
            raise ValueError(
                f"cohort must be at most the number of clients, {clients}: "
                f"got {self.cohort}"
            )
        return self.cohort

    @property
    def _choose(self) -> Callable[..., Sampler | Adapted]:
        return catalog.SAMPLERS[self._sampler].factory

    def _adapted(self, choose: Spec) -> Adapted | None:
        """The sampler with its work on the host, if it has some."""
        made = choose.build(**choose.hp)
        if not isinstance(made, Adapted):
            return None
        if self.pool is not None:
            raise ValueError(f"sampler {self._sampler} takes no pool: got {self.pool}")
        if self.rounds <= made.adaptation.warm_up:
            raise ValueError(
                f"rounds must be more than warm_up, {made.adaptation.warm_up}: "
                f"got {self.rounds}"
            )
        return made

    def _pooled(self, sampler: Spec) -> Spec:
        """`sampler` on changing candidates, if there are to be any."""
        if self.pool is None:
            return sampler
        pool, every = self.pool, self.pool_every

        def build(**hp: Any) -> Sampler:
            return pools(sampler.build(**hp), pool, every)

        return Spec(build, sampler.hp)

    def run(self, seeds: int | None = None, *, progress: bool = True) -> Result:
        """Train; with `seeds`, so many runs from `seed` on as one program.

        The history has one row per round (and seed).
        """
        problem = self.build(lanes=seeds or 1)
        if progress and self.backend == "auto":
            print(f"layout: {problem.sim.backend.name}", file=sys.stderr)
        if seeds is None:
            state, key = problem.start(jax.random.key(self.seed))
        elif seeds < 1:
            raise ValueError(f"seeds must be at least 1: got {seeds}")
        else:
            roots = jax.vmap(jax.random.key)(self.seed + jnp.arange(seeds))
            state, key = jax.vmap(problem.start)(roots)
        state, history = problem.run(
            state, key, self.rounds, every=self.eval_every, progress=progress
        )
        if seeds is not None:
            history["lane"] += self.seed
            history = history.rename(columns={"lane": "seed"})
        return Result(self, history, state.server.params, state)


@cache
def _published_augmentation() -> Callable:
    """The training transform of Kim et al., CVPR 2024."""
    return augment.chain(augment.rotate(10), augment.pad_crop(4), augment.flip())


def _tracked(algorithm: Spec) -> Spec:
    def build(*tools: Any, **hp: Any) -> Algorithm:
        return tracked(algorithm.build(*tools, **hp))

    return Spec(build, algorithm.hp)


def _switched_on(chosen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if value is not None}


def _frozen(chosen: dict[str, Any]) -> tuple:
    return tuple(sorted(chosen.items()))
