"""State of the agent core and its settings: frozen, replaced as a whole by `core.handle`.

Called by core and runtime. All times are monotonic milliseconds of the agent's own process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.wire.channel import ServiceUnitStateData


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How often an agent speaks and how long it trusts what it last heard."""

    heartbeat_interval_ms: int = 1_000  # sign of life between reports
    report_interval_ms: int = 2_000  # full load report
    lease_ms: int = 10_000  # without a successful poll for longer: stop serving
    takeover_grace_ms: int = 500  # >= 2 poll intervals: an old owner that can poll has stopped
    retry_ms: int = 1_000  # pause before a failed acquire, release or split is tried again


class Phase(StrEnum):
    """What the broker itself is doing with a bundle; no entry = not served."""

    OPENING = "opening"
    SERVING = "serving"
    CLOSING = "closing"
    SPLITTING = "splitting"


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals since the agent started."""

    accepted: int = 0  # channel records that changed the table
    losing: int = 0  # records that lost by the conflict rule: they change nothing
    unreadable: int = 0  # records that are no ServiceUnitStateData
    fences: int = 0  # times that the lease ran out
    failures: int = 0  # acquire, release or split that ended with an error


@dataclass(frozen=True, slots=True)
class AgentState:
    """Everything the agent remembers.

    `table` is the fold of the whole channel; `phases` is what the broker does; `published`
    holds the version written per bundle until it is read back, so that nothing is written
    twice; `wait_until_ms` holds bundles with a failed operation until it is tried again;
    `grace_until_ms` holds bundles that were taken over from an owner who may still serve;
    `splits` holds parents that this broker is splitting with their children.
    """

    cluster: str
    broker: str
    table: Mapping[str, ServiceUnitStateData] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    wait_until_ms: Mapping[str, int] = field(default_factory=dict)
    grace_until_ms: Mapping[str, int] = field(default_factory=dict)
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    polled_ms: int | None = None  # start of the last successful poll
    is_caught_up: bool = False  # the channel was read to its end since the start or the fence
    is_fenced: bool = False
    heartbeat_due_ms: int = 0
    report_due_ms: int = 0
    sequence: int = 0  # of the last report or heartbeat; starts above that of an earlier process
    counts: Counts = field(default_factory=Counts)


def new_state(cluster: str, broker: str, first_sequence: int = 0) -> AgentState:
    """State of an agent that has read nothing; `first_sequence` e.g. wall ms at start."""
    return AgentState(cluster=cluster, broker=broker, sequence=first_sequence)


def serving(state: AgentState) -> tuple[str, ...]:
    """Bundles the broker may be serving at this moment, sorted."""
    return tuple(sorted(state.phases))
