"""Components put together into a simulation."""

from fedjax_mos.backends.mapping import vmapped
from fedjax_mos.channels.identity import identity
from fedjax_mos.components import Spec, as_spec, then
from fedjax_mos.engine.hyperparameters import Decay, decaying
from fedjax_mos.engine.round import rounds_of
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
) -> Simulation:
    """Put components together.

    `algorithm` is built with the tools of `local`, `sampler` (if it is a Spec) with
    `cohort` and the loss. `uplink` and `downlink` are per client, `broadcast` is
    shared; without them messages travel as they are. `decay(hp, round)` changes a
    round's hyperparameters. A sampler's warm-up rounds may have a backend of their own.
    """
    if not isinstance(local, LocalWork | Spec):
        raise ValueError(
            f"local must be fm.local_work(...) or a Spec of it: got {local!r}"
        )
    backend = vmapped() if backend is None else backend
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

    def sampler_of(hp: Hp) -> Sampler | HostAssisted:
        loss = specs["local"].build(**hp["local"]).loss
        return chosen.build(SamplerTools(slots, loss), **hp["sampler"])

    chosen = specs["sampler"]
    assisted = sampler_of(at_start({kind: made.hp for kind, made in specs.items()}))
    if not isinstance(assisted, HostAssisted):
        return Simulation(*rounds_of(specs, slots, backend), specs, backend)

    def compute(data: FederatedData, state: RoundState) -> Updated:
        # With the simulation's own hyperparameters: lanes may have others.
        now = sampler_of(at_round(state.hp, state.round))
        assert isinstance(now, HostAssisted)
        return now.update.compute(data, state)

    specs["sampler"] = then(chosen, lambda made: made.sampler)
    if assisted.needs_last_message:
        specs["algorithm"] = then(algorithm, tracked)
    update, warm_up = assisted.update._replace(compute=compute), None
    if assisted.update.warm is not None:
        warm, warmly = as_spec(assisted.update.warm), warm_up_backend or backend
        first = specs | {"sampler": warm}
        warm_up = Simulation(*rounds_of(first, slots, warmly), first, warmly)
    return Simulation(
        *rounds_of(specs, slots, backend), specs, backend, update, warm_up
    )
