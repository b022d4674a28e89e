"""State of the agent core and its settings: frozen, replaced as a whole by `core.handle`.

The lease has two legs. *Read*: the channel was read to its end at most `lease_ms` ago, so that no
order is older than that. *Heard*: a sign of life got through at most `lease_ms` ago, so that the
controller has not given the bundles away. Where the second fails, orders that do not wait for
this broker must be expected, and it may serve only while it surely reads them within the grace
of the next owner: `unheard_poll_ms` after each read. The same holds while a bundle that is
served has been in flight for a lease (a slow close, a split that does not succeed), because what
is in flight for too long is repaired by such an order although this broker is heard.

Called by core, runtime and simulations. All times are monotonic ms of the agent's own process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.wire.channel import ServiceUnitStateData
from controller.wire.formats import BrokerStatus


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How often an agent speaks and how long it trusts what it last heard."""

    heartbeat_interval_ms: int = 1_000  # sign of life between reports
    report_interval_ms: int = 2_000  # the broker is asked for its load, and reported if due
    lease_ms: int = 10_000  # without reading the channel to its end for longer: stop serving
    unheard_poll_ms: int = 250  # the same, while signs of life do not get through: 2.5 polls
    heard_settle_ms: int = 35_000  # being heard again counts after so long: see `heard_wait`
    takeover_grace_ms: int = 500  # an unheard old owner has read within unheard_poll_ms
    retry_ms: int = 1_000  # pause before a failed acquire, release or split is tried again
    split_tries_max: int = 7  # while others change the boundaries too; then the controller's turn
    split_retry_ms: int = 100  # between two of these tries


class Phase(StrEnum):
    """What the broker itself is doing with a bundle; no entry = neither served nor worked on."""

    OPENING = "opening"
    SERVING = "serving"
    CLOSING = "closing"
    SPLITTING = "splitting"
    UNSERVED = "unserved"  # nothing is served, but an operation of the broker still runs


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals since the agent started."""

    accepted: int = 0  # channel records that changed the table
    losing: int = 0  # records that lost by the conflict rule: they change nothing
    unreadable: int = 0  # records that are no ServiceUnitStateData
    fences: int = 0  # times that the lease ran out
    failures: int = 0  # acquire, release or split that ended with an error
    drops: int = 0  # bundles that were taken away without waiting for their close
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why records changed nothing or could not be obeyed: losing, unreadable, bad_children,
    split_given_up."""


@dataclass(frozen=True, slots=True)
class SplitWork:
    """A split that this broker carries out: how far it has come."""

    children: tuple[str, ...]  # full names; empty if the record's ranges do not tile the parent
    tries: int = 0  # that somebody else's change of the boundaries has ended
    is_done: bool = False  # the boundaries hold the children


@dataclass(frozen=True, slots=True)
class AgentState:
    """Everything the agent remembers.

    `table` is the fold of the whole channel; `phases` is what the broker does; `published`
    holds the version written per bundle until it is read back, so that nothing is written
    twice; `wait_until_ms` holds bundles with a failed operation until it is tried again;
    `grace_until_ms` holds bundles that were taken over from an owner who may still serve;
    `splits` holds parents that this broker is splitting; `transfers` holds bundles that were
    closed for a new owner who has not appeared yet; `in_flight_ms` holds bundles that are served
    although they are to be closed or split, with a time before their record was written.
    """

    cluster: str
    broker: str
    table: Mapping[str, ServiceUnitStateData] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    wait_until_ms: Mapping[str, int] = field(default_factory=dict)
    grace_until_ms: Mapping[str, int] = field(default_factory=dict)
    splits: Mapping[str, SplitWork] = field(default_factory=dict)
    transfers: frozenset[str] = frozenset()
    in_flight_ms: Mapping[str, int] = field(default_factory=dict)
    read_ms: int | None = None  # start of the last poll that reached the channel's end
    heard_ms: int | None = None  # start of the last append of a sign of life that counts
    heard_wait: tuple[int, int] | None = None
    """Signs of life after a silence: (start of the last, acknowledgement of the first). Bundles
    may have been given away before the first, by records that are still on their way; so they
    count only once a read begun `heard_settle_ms` after it has shown what happened."""
    is_caught_up: bool = False  # the channel was read to its end since the start or the fence
    is_fenced: bool = False
    status: BrokerStatus = "up"
    jittery_until_ms: int = 0  # signs of life say until then that the transport had trouble
    heartbeat_due_ms: int = 0
    report_due_ms: int = 0
    is_report_forced: bool = False  # the next one is sent whatever has changed: bundles moved
    sequence: int = 0  # of the last report or heartbeat; starts above that of an earlier process
    counts: Counts = field(default_factory=Counts)


def new_state(cluster: str, broker: str, first_sequence: int = 0) -> AgentState:
    """State of an agent that has read nothing; `first_sequence` e.g. wall ms at start."""
    return AgentState(cluster=cluster, broker=broker, sequence=first_sequence)


def deadline_of(
    read_ms: int | None,
    heard_ms: int | None,
    in_flight_ms: Iterable[int],
    settings: AgentSettings,
) -> int | None:
    """The last moment at which serving is safe; None before the first read.

    min(read + lease, max(read + unheard_poll, heard + lease)); being heard counts no longer when
    a bundle has been in flight for a lease.
    """
    if read_ms is None:
        return None
    until_ms = read_ms + settings.unheard_poll_ms
    if heard_ms is not None:
        until_ms = max(until_ms, min((heard_ms, *in_flight_ms)) + settings.lease_ms)
    return min(read_ms + settings.lease_ms, until_ms)


def deadline_ms(state: AgentState, settings: AgentSettings) -> int | None:
    """`deadline_of` a state, whether or not it is fenced."""
    return deadline_of(state.read_ms, state.heard_ms, state.in_flight_ms.values(), settings)


def may_serve(state: AgentState, now_ms: int, settings: AgentSettings) -> bool:
    """True while the broker may serve what it has acquired; never decides about one bundle."""
    until_ms = deadline_ms(state, settings)
    return not state.is_fenced and until_ms is not None and now_ms <= until_ms


def serving(state: AgentState) -> tuple[str, ...]:
    """Bundles the broker may be serving at this moment, sorted."""
    return tuple(sorted(b for b, phase in state.phases.items() if phase != Phase.UNSERVED))
