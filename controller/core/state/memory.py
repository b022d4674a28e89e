"""The part of the memory that is not a table: msgspec structs, copied before they change."""

from __future__ import annotations

from typing import Literal

import msgspec

from controller.strategies.memory import Memory as StrategyMemory
from controller.wire.policies import PolicySet

StrategyKind = Literal["shed", "place", "split"]


class Move(msgspec.Struct, kw_only=True):
    """A decision of ours from its writing until its effect shows in load reports.

    Until the record is read back it is *pending* (`seen_ms` 0); it is then in flight until the
    destination owns the bundle, and its load stays applied to the view until both brokers have
    reported after that.
    """

    kind: str  # transfer, unload, split, assign, override, reassert, tombstone
    version: int
    decision_id: str
    source: str | None
    destination: str | None
    decided_ms: int
    seen_ms: int = 0  # our record was accepted
    left_ms: int = 0  # the source stopped serving
    arrived_ms: int = 0  # the destination owns it
    load_source: float = 0.0  # load ratio that the source loses
    load_destination: float = 0.0  # load ratio that the destination gains
    rate: float = 0.0  # messages/s that move
    throughput: float = 0.0  # bytes/s that move

    @property
    def moves_load(self) -> bool:
        """False for kinds after which the load is where it was."""
        return self.kind not in ("split", "reassert", "tombstone")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An assignment request that waits for a broker."""

    asked_ms: int
    who: str
    topics: str | None = None  # persistent or non-persistent; None = both, or not known
    is_barred: bool = False  # isolation leaves it no broker: it is tried again at ticks only


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's standing order: since when, by whom, and why."""

    since_ms: int
    who: str
    why: str


class PinMark(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that an operator keeps on one broker."""

    broker: str
    mark: Mark


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the channel that lost, until the next line of the decision log tells of it."""

    bundle: str
    reason: str  # of the conflict rule
    version: int
    broker: str  # that the record named


class Traits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a broker's reports say of it besides its load."""

    version: str | None = None
    zone: str | None = None
    serves_persistent: bool = True
    serves_non_persistent: bool = True


Remembered = dict[str, dict[str, int | float | str]]
"""The memory of a strategy (`controller.strategies.memory`): replaced as a whole, never changed."""


class Memory(msgspec.Struct, kw_only=True):
    """Scalars and small maps of one cluster. Times are ingest times of the log, ms."""

    cluster: str
    clock_ms: int = 0  # greatest ingest time seen
    started_ms: int = 0  # ingest time of the first record, 0 = none yet
    next_tick_ms: int = 0  # the next round, 0 = none yet
    round_number: int = 0
    grace_ms: int = 0  # silence counts from here: brokers get a full time after safe mode
    paused_until_ms: int = 0  # 0 = not paused, -1 = until resumed
    offsets: dict[str, int] = msgspec.field(default_factory=dict)  # "topic/partition" -> last
    moves: dict[str, Move] = msgspec.field(default_factory=dict)  # by bundle
    requests: dict[str, Request] = msgspec.field(default_factory=dict)  # by bundle
    # What the strategies remember, and whose it is; the names in the blob are those of its
    # first version.
    shed: Remembered = msgspec.field(default_factory=dict, name="hits_shed")
    split: Remembered = msgspec.field(default_factory=dict, name="hits_split")
    children: dict[str, list[str]] = msgspec.field(default_factory=dict)  # of Splitting bundles
    counters: dict[str, int] = msgspec.field(default_factory=dict)  # since the memory began
    # Fields below came later: each has a default, so that older checkpoints stay valid.
    pause: Mark | None = None  # who paused, and why
    drains: dict[str, Mark] = msgspec.field(default_factory=dict)  # by broker
    pins: dict[str, PinMark] = msgspec.field(default_factory=dict)  # by bundle
    tainted: dict[str, int] = msgspec.field(default_factory=dict)  # bundle -> greatest loser
    losses: list[Loss] = msgspec.field(default_factory=list)  # the first few since the last line
    losses_more: int = 0  # ... and how many were not kept
    place: Remembered = msgspec.field(default_factory=dict)
    topics: dict[str, bytes] = msgspec.field(default_factory=dict)  # by bundle, see state.topics
    overrides: dict[str, bool | int | float | str | list[str]] = msgspec.field(
        default_factory=dict
    )  # keys under [balance] that operators set; replaced as a whole
    owners: dict[str, str] = msgspec.field(default_factory=dict)  # kind -> strategy it belongs to
    policies: PolicySet | None = None  # as sent by an operator; None = there are none
    traits: dict[str, Traits] = msgspec.field(default_factory=dict)  # by broker, where it says any

    def copy(self) -> Memory:
        """A copy that shares nothing that step changes in place."""
        other = msgspec.structs.replace(self)
        other.offsets = dict(self.offsets)
        other.moves = {name: msgspec.structs.replace(move) for name, move in self.moves.items()}
        other.requests = dict(self.requests)
        other.children = dict(self.children)
        other.counters = dict(self.counters)
        other.drains = dict(self.drains)
        other.pins = dict(self.pins)
        other.tainted = dict(self.tainted)
        other.losses = self.losses.copy()
        other.owners = dict(self.owners)
        other.topics = dict(self.topics)
        other.traits = dict(self.traits)
        return other

    def remembered(self, kind: StrategyKind, strategy: str) -> Remembered:
        """What the strategy in use remembers; nothing, if the memory is that of another one."""
        table: Remembered = getattr(self, kind)
        return table if self.owners.get(kind, strategy) == strategy else {}

    def remember(self, kind: StrategyKind, strategy: str, memory: StrategyMemory) -> None:
        """Replaces what is remembered, and notes whose it is.

        Tables are not copied, because a placement remembers after each of thousands of choices:
        whoever begins with a memory copies what it changes.
        """
        setattr(self, kind, dict(memory))
        self.owners[kind] = strategy

    def count(self, what: str, number: int = 1) -> None:
        """Adds to a counter that metrics read from the snapshot."""
        self.counters[what] = self.counters.get(what, 0) + number
