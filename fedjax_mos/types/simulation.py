"""The state of a simulation, and how its clients are laid out on the machine."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
from typing_extensions import TypeAliasType

from fedjax_mos.types.algorithm import Mine, Server
from fedjax_mos.types.channel import ChannelState, Up, Wire
from fedjax_mos.types.data import ClientView, FederatedData, Key, Metrics, PyTree
from fedjax_mos.types.sampler import Cohort, HostUpdate, Sampler, SamplerState

if TYPE_CHECKING:
    from fedjax_mos.components import Spec

#: Kind of component -> name -> float array, or a tree of them
Hp = TypeAliasType("Hp", dict[str, Any])


class Row(NamedTuple):
    """Everything that belongs to one client; channel states are per exchange."""

    mine: Mine  #: the algorithm's
    up: tuple[ChannelState, ...]  #: the uplink's
    down: tuple[ChannelState, ...]  #: the downlink's


class RoundState(NamedTuple):
    """All that changes between rounds, and every float hyperparameter."""

    round: jax.Array  #: the next round's number, from 0
    server: Server  #: the algorithm's; `server.params` is the model
    #: A Row with a leading N axis on every leaf, a layout may have some behind the last
    #: client's; of rows on disk, where they are.
    clients: PyTree
    shared: tuple[ChannelState, ...]  #: the broadcast channel, per exchange
    sampler: SamplerState  #: the sampler's
    hp: Hp  #: every float hyperparameter


class RoundInfo(NamedTuple):
    """What one round reports; it does not persist."""

    metrics: Metrics  #: means over the live slots of what clients measure
    bits_up: jax.Array  #: [M] uint32; the host adds them up exactly
    bits_down: jax.Array  #: [M] uint32
    cohort: Cohort  #: who took part
    slots: Metrics  #: the same measurements slot by slot, [M]; dead slots hold 0


class Shared(NamedTuple):
    """What all clients of an exchange are given alike."""

    hp: Hp  #: the hyperparameters of this round
    wire: Wire  #: the broadcast
    k_local: Key  #: key of the local work; a client folds its number in
    k_wires: Key  #: key of the channels; likewise
    travels_up: PyTree = True  #: which parts of the message up travel


class OneClient(Protocol):
    def __call__(
        self, shared: Shared, row: Row, view: ClientView, /
    ) -> tuple[Up, Row, PyTree]:
        """One client's whole exchange: message, new row, per-slot information.

        It closes over no array: a backend may move it to another device.
        """
        ...


Mapped = tuple[tuple[Up, Up], Row, PyTree]  # (weighted mean, live sum), rows, slots


class MapClients(Protocol):
    def __call__(
        self,
        one_client: OneClient,
        shared: Shared,
        rows: Row,
        view: ClientView,
        cohort: Cohort,
        /,
    ) -> Mapped:
        """Run all slots: ((weighted mean, live sum), rows, per-slot information)."""
        ...


class MapLanes(Protocol):
    def __call__(
        self,
        simulate: Callable[[PyTree, PyTree], PyTree],
        shared: PyTree,
        lanes: PyTree,
        /,
    ) -> PyTree:
        """`simulate(shared, lane)` for every lane of the leading axis of `lanes`."""
        ...


class Rows(NamedTuple):
    """How a layout keeps one row per client: a table whose leaves are [N, ...]."""

    make: Callable[[PyTree, int], PyTree]  #: (row, N) -> a table of N copies or more
    take: Callable[[PyTree, jax.Array], PyTree]  #: (table, ids [M]) -> rows
    #: (table, ids [M], rows) -> the table with them; ids behind the end are dropped.
    put: Callable[[PyTree, jax.Array, PyTree], PyTree]


class MeasureStore(Protocol):
    def __call__(
        self,
        fn: Callable[[PyTree, FederatedData, jax.Array], PyTree],
        shared: PyTree,
        store: FederatedData,
        width: int,
        groups: int | None = None,
        /,
    ) -> PyTree:
        """Sum of fn(shared, store, positions) over all positions in a store's order.

        `positions` [width], or [blocks, width] where they come in at most so many
        `groups`; those behind the order's end are padding.
        """
        ...


class Backend(NamedTuple):
    """How clients, and whole simulations, are laid out on the machine."""

    name: str  #: for messages
    map: MapClients  #: runs the slots of a cohort
    many: MapLanes  #: runs whole simulations, the lanes
    rows: Rows  #: how clients' rows are kept
    measure: MeasureStore  #: sums over a store's examples
    #: Sum of fn(shared, block) over blocks: (fn, shared, blocks [B, ...]) -> sum.
    total: Callable[[Callable[[PyTree, PyTree], PyTree], PyTree, PyTree], PyTree]
    #: Put a run's data (only read) and state (donated; with lanes or not) where they
    #: are used: (data, state, lanes) -> (data, state).
    place: Callable[[PyTree, PyTree, bool], tuple[PyTree, PyTree]]
    traced: bool  #: False: `step` is a Python loop and must not be jitted


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A federated method ready to run: pure `init` and `step`, and its components.

    Simulations with one `step` are equal, whatever numbers they start from: they share
    what is compiled.
    """

    init: Callable[..., RoundState]  #: (params, data, key, hp=None, rows=None)
    #: one round
    step: Callable[[FederatedData, RoundState, Key], tuple[RoundState, RoundInfo]]
    #: Who takes part in the next round, and the sampler's state after it.
    draw: Callable[[FederatedData, RoundState, Key], tuple[Cohort, SamplerState]]
    specs: "dict[str, Spec]"  #: by kind: algorithm, local, sampler, uplink, ...
    backend: Backend  #: the layout
    #: A sampler's work on the host, and the simulation of its warm-up rounds.
    host_update: HostUpdate | None = None
    warm_up: "Simulation | None" = None  #: the simulation of the warm-up rounds
    #: The same simulation with another sampler.
    under: "Callable[[Sampler], Simulation] | None" = None
    #: A text that says all that `step` was made from; None: objects of this process.
    identity: str | None = None
    platform: str | None = None  #: that it is traced for; None: the process's own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Simulation) and self.step is other.step

    def __hash__(self) -> int:
        return id(self.step)

    @property
    def hp(self) -> Hp:
        """The default value of every float hyperparameter, by kind and name."""
        return {kind: dict(spec.hp) for kind, spec in self.specs.items()}
