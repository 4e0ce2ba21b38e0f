"""Every protocol of the engine, and no logic.

A component is a NamedTuple of pure functions. Client code sees ONE client: no file
but `backends.py` knows that clients are a batch axis.

Letters: N clients, M slots in a cohort, K local steps, B examples in a batch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

PyTree = Any
Params = PyTree
Key = jax.Array
Scalar = float | jax.Array  # a float hyperparameter, possibly traced
Metrics = dict[str, jax.Array]
Hp = dict[str, Any]  # component -> name -> float array

# An algorithm, sampler or channel chooses its own types for these; () when empty.
Server = Any
Mine = Any
Up = Any
Down = Any
SamplerState = Any
ChannelState = Any


# ---- data ----------------------------------------------------------------------------


class Batch(NamedTuple):
    """Rows of examples; a row whose mask is False is padding and must not count."""

    x: jax.Array  # [B, ...]
    y: jax.Array  # [B]
    mask: jax.Array  # [B] bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FederatedData:
    """All clients' examples: one flat store and, per client, a slice of positions."""

    x: jax.Array  # [examples, ...]
    y: jax.Array  # [examples]
    order: jax.Array  # [sum of sizes] positions in the store, client after client
    offset: jax.Array  # [N] client i owns order[offset_i : offset_i + size_i]
    size: jax.Array  # [N]
    # The largest size, known to the compiler: it bounds epochs and full gradients.
    largest: int = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClientView:
    """What one client sees of the data; x, y and order are shared, never copied."""

    x: jax.Array
    y: jax.Array
    order: jax.Array
    offset: jax.Array
    size: jax.Array
    share: jax.Array  # p_i = size_i / sum of sizes
    importance: jax.Array  # N p_i
    largest: int = dataclasses.field(metadata={"static": True})


class Plan(NamedTuple):
    """One client's local schedule of minibatches."""

    rows: jax.Array  # [K, B] positions in the store, -1 for padding
    active: jax.Array | None  # [K] bool; None: every step is active
    epoch: jax.Array  # [K] int
    keys: jax.Array  # [K] one key per step, for dropout and augmentation


class Step(NamedTuple):
    """One entry of a plan with its examples, as a local step receives it."""

    batch: Batch
    epoch: jax.Array
    key: Key


# ---- local work ----------------------------------------------------------------------


class Loss(Protocol):
    def __call__(self, params: Params, batch: Batch, key: Key, /) -> jax.Array:
        """Mean loss over the rows of `batch` whose mask is True."""
        ...


class Gradient(Protocol):
    def __call__(
        self, params: Params, batch: Batch, key: Key, /
    ) -> tuple[jax.Array, Params]:
        """Loss and gradient on one minibatch, augmented and clipped as asked."""
        ...


class FullGradient(Protocol):
    def __call__(
        self, params: Params, view: ClientView, key: Key, /
    ) -> tuple[jax.Array, Params]:
        """Loss and gradient over all of a client's examples."""
        ...


class Descend(Protocol):
    def __call__(
        self, params: Params, direction: Params, lr: Scalar, epoch: jax.Array, /
    ) -> Params:
        """One step against `direction`, with decays applied as asked."""
        ...


class MakePlan(Protocol):
    def __call__(self, view: ClientView, key: Key, /) -> Plan:
        """Draw one client's minibatches for this round."""
        ...


class Forward(Protocol):
    def __call__(
        self, params: Params, h: jax.Array, start: int, key: Key | None, /
    ) -> tuple[jax.Array, ...]:
        """Outputs of a staged model's stages from `start` on: [-1] logits."""
        ...


class LocalWork(NamedTuple):
    """The tools of a client, the same for every algorithm."""

    plan: MakePlan
    gradient: Gradient
    full_gradient: FullGradient
    descend: Descend
    loss: Loss
    gradient_of: Callable[[Loss], Gradient]  # of another objective, same treatment
    move: Descend  # `descend` without weight decay
    decayed: Callable[[Params, Params], Params]  # (direction, y) -> + weight_decay y
    distance: Callable[[Plan, Scalar], jax.Array]  # sum over active steps of lr_k
    forward: Forward | None  # for methods that look inside the model


# ---- algorithm -----------------------------------------------------------------------


class Aggregate(NamedTuple):
    """All that the server ever learns about a cohort."""

    mean: Up  # sum over slots of weight * message
    sum: Up  # sum over live slots of the message
    live: jax.Array  # number of live slots
    num_clients: int  # N


class ClientWork(Protocol):
    def __call__(
        self, down: Down, mine: Mine, view: ClientView, key: Key, /
    ) -> tuple[Up, Mine, Metrics]:
        """One client's part: message received, own state -> message, own state.

        The key depends on (seed, round, client) and is the same in every exchange of
        a round. The tools fold a purpose into it; do so before drawing yourself.
        """
        ...


class Exchange(NamedTuple):
    """One trip down, local work, one trip up."""

    broadcast: Callable[[Server], Down]
    client: ClientWork
    server: Callable[[Server, Aggregate], Server]


class Algorithm(NamedTuple):
    """A method: its initial state and its exchanges within one round."""

    init: Callable[[Params], tuple[Server, Mine]]  # Server has a field `params`
    exchanges: tuple[Exchange, ...]


# ---- who takes part ------------------------------------------------------------------


class Cohort(NamedTuple):
    """A fixed number of slots; a live client appears in exactly one of them."""

    ids: jax.Array  # [M] int
    weights: (
        jax.Array
    )  # [M] float, the estimator's weights; the engine normalises nothing
    mask: jax.Array  # [M] bool, False for a dead slot


class Sample(Protocol):
    def __call__(
        self, state: SamplerState, key: Key, params: Params, data: FederatedData, /
    ) -> tuple[Cohort, SamplerState]:
        """Choose this round's cohort."""
        ...


class Sampler(NamedTuple):
    """Who takes part, and with which weight."""

    init: Callable[[FederatedData, Key], SamplerState]
    sample: Sample


# ---- what travels --------------------------------------------------------------------


class Wire(NamedTuple):
    """A value in transit and its exact cost."""

    value: PyTree
    bits: jax.Array  # uint32 scalar
    fired: jax.Array | None = None  # whether a message rule applied; None: no rule


Codec = Callable[[PyTree, Key], Wire]  # a compressor without memory


class Send(Protocol):
    def __call__(
        self, state: ChannelState, wire: Wire, key: Key, context: PyTree, /
    ) -> tuple[Wire, ChannelState]:
        """Deliver one message. `context` is what the client received this round."""
        ...


class Channel(NamedTuple):
    """One client's pipe, or the shared one of a broadcast."""

    init: Callable[[PyTree], ChannelState]  # argument: zeros of the message's shape
    send: Send


# ---- the simulation ------------------------------------------------------------------


class Spec(NamedTuple):
    """A component with its numbers taken out: `build(*tools, **hp)` makes it."""

    build: Callable[..., Any]
    hp: dict[str, Any]


class Row(NamedTuple):
    """Everything that belongs to one client; channel states are per exchange."""

    mine: Mine
    up: tuple[ChannelState, ...]
    down: tuple[ChannelState, ...]


class RoundState(NamedTuple):
    """All that changes between rounds, and every float hyperparameter."""

    round: jax.Array
    server: Server
    clients: Row  # leading N axis on every leaf
    shared: tuple[ChannelState, ...]  # the broadcast channel, per exchange
    sampler: SamplerState
    hp: Hp


class RoundInfo(NamedTuple):
    """What one round reports; it does not persist."""

    metrics: Metrics  # means over the live slots
    bits_up: jax.Array  # [M] uint32; the host adds them up exactly
    bits_down: jax.Array  # [M] uint32
    cohort: Cohort


class Shared(NamedTuple):
    """What all clients of an exchange are given alike."""

    hp: Hp  # the numbers of this round
    wire: Wire  # the broadcast
    k_local: Key
    k_wires: Key


class OneClient(Protocol):
    def __call__(
        self, shared: Shared, row: Row, view: ClientView, client: jax.Array, /
    ) -> tuple[Up, Row, PyTree]:
        """One client's whole exchange: message, new row, per-slot information.

        It closes over no array: a backend may move it to another device.
        """
        ...


class MapClients(Protocol):
    def __call__(
        self,
        one_client: OneClient,
        shared: Shared,
        rows: Row,
        view: ClientView,
        cohort: Cohort,
        /,
    ) -> tuple[tuple[Up, Up], Row, PyTree]:
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


class Backend(NamedTuple):
    """How clients, and whole simulations, are laid out on the machine."""

    name: str
    map: MapClients
    many: MapLanes
    # Sum of fn(shared, block) over blocks: (fn, shared, blocks [B, ...]) -> sum.
    total: Callable[[Callable[[PyTree, PyTree], PyTree], PyTree, PyTree], PyTree]
    # Put a run's data (only read) and state (donated; with lanes or not) where they
    # are used: (data, state, lanes) -> (data, state).
    place: Callable[[PyTree, PyTree, bool], tuple[PyTree, PyTree]]
    traced: bool  # False: `step` is a Python loop and must not be jitted


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity: a static argument
class Simulation:
    """A federated method ready to run: pure `init` and `step`, and default numbers."""

    init: Callable[..., RoundState]  # (params, data, key, hp=None)
    step: Callable[[FederatedData, RoundState, Key], tuple[RoundState, RoundInfo]]
    hp: Hp
    backend: Backend


# ---- between rounds ------------------------------------------------------------------


class Revision(NamedTuple):
    """What the host found out: the sampler's next state, and what learning it cost."""

    sampler: SamplerState
    bits_up: int = 0
    bits_down: int = 0


class Adaptation(NamedTuple):
    """Work on the host that revises the state of a sampler between rounds."""

    revise: Callable[[FederatedData, RoundState], Revision]  # of ONE simulation
    every: int | None = None  # rounds between revisions; None: one, after the warm-up
    warm_up: int = 0  # so many rounds at first are steps of `warm`
    warm: Simulation | None = None


class Adapted(NamedTuple):
    """A sampler and its work on the host."""

    sampler: Sampler
    adaptation: Adaptation
    follows: bool = False  # reads what `algorithms.tracked` keeps
