"""Components put together into a simulation."""

from functools import partial

import jax

from fedjax_mos.backends.mapping import vmapped
from fedjax_mos.channels.identity import identity
from fedjax_mos.components import Spec, as_spec, then
from fedjax_mos.engine.host_updates import extra_rounds
from fedjax_mos.engine.hyperparameters import Decay, decaying
from fedjax_mos.engine.rehearsal import checked
from fedjax_mos.engine.round import Draw, Init, Round, rounds_of
from fedjax_mos.engine.tracking import tracked
from fedjax_mos.schedule import at_round, at_start
from fedjax_mos.types import (
    Backend,
    Channel,
    FederatedData,
    HostAssisted,
    Hp,
    LocalWork,
    RoundState,
    Sampler,
    SamplerTools,
    Simulation,
    Updated,
)


def simulation(
    algorithm: Spec,
    local: LocalWork | Spec,
    sampler: Sampler | HostAssisted | Spec,
    *,
    cohort: int | None = None,
    uplink: Channel | Spec | None = None,
    downlink: Channel | Spec | None = None,
    broadcast: Channel | Spec | None = None,
    decay: Decay | Spec | None = None,
    backend: Backend | None = None,
    warm_up_backend: Backend | None = None,
    drop_nonfinite: bool = False,
) -> Simulation:
    """Put components together.

    `algorithm` is built with the tools of `local`, `sampler` (if it is a Spec) with
    `cohort` and the loss. `uplink` and `downlink` are per client, `broadcast` is
    shared; without them messages travel as they are. `decay(hp, round)` changes a
    round's hyperparameters. A sampler's warm-up rounds may have a backend of their own.
    With `drop_nonfinite` a client whose update is not finite is left out of its round,
    and the share of such clients is a metric, `dropped`.
    """
    if not isinstance(local, LocalWork | Spec):
        raise ValueError(
            f"local must be fm.local_work(...) or a Spec of it: got {local!r}"
        )
    backend = vmapped() if backend is None else backend
    algorithm = then(algorithm, partial(checked, algorithm.name))
    specs = {
        "algorithm": algorithm,
        "local": as_spec(local),
        "sampler": as_spec(sampler),
        "uplink": as_spec(uplink or identity()),
        "downlink": as_spec(downlink or identity()),
        "broadcast": as_spec(broadcast or identity()),
        "decay": as_spec(decay or decaying()),
    }
    if isinstance(sampler, Spec) and cohort is None:
        raise ValueError("cohort must be given with a sampler that is built with it")
    slots = cohort or 0

    def rounds(
        specs: dict[str, Spec], backend: Backend
    ) -> tuple[Init, Round, Draw, dict[str, Spec], Backend]:
        made = rounds_of(specs, slots, backend, drop_nonfinite)
        return *made, specs, backend

    def under(sampler: Sampler, backend: Backend = backend) -> Simulation:
        return Simulation(*rounds(specs | {"sampler": as_spec(sampler)}, backend))

    def sampler_of(hp: Hp) -> Sampler | HostAssisted:
        loss = specs["local"].build(**hp["local"]).loss
        return chosen.build(SamplerTools(slots, loss), **hp["sampler"])

    chosen = specs["sampler"]
    assisted = sampler_of(at_start({kind: made.hp for kind, made in specs.items()}))
    if not isinstance(assisted, HostAssisted):
        return Simulation(*rounds(specs, backend), under=under)

    def compute(data: FederatedData, state: RoundState) -> Updated:
        # With the simulation's own hyperparameters: lanes may have others.
        now = sampler_of(at_round(state.hp, state.round))
        assert isinstance(now, HostAssisted)
        if warm_up is None or not now.update.extra:
            return now.update.compute(data, state)
        key = jax.random.wrap_key_data(state.sampler.key)
        ahead, up, down = extra_rounds(warm_up, data, state, key, now.update.extra)
        found = now.update.compute(data, ahead)
        return found._replace(
            bits_up=found.bits_up + up,
            bits_down=found.bits_down + down,
            state=ahead if now.update.keep else None,
        )

    specs["sampler"] = then(chosen, lambda made: made.sampler)
    if assisted.needs_last_message:
        specs["algorithm"] = then(algorithm, tracked)
    update, warm_up = assisted.update._replace(compute=compute), None
    if assisted.update.warm is not None:
        warm_up = under(assisted.update.warm, warm_up_backend or backend)
    return Simulation(*rounds(specs, backend), update, warm_up, under)
