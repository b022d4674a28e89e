"""What goes into `step` and what comes out: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.state import ClusterState
from controller.wire.rejects import Reject


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of the log as it was read; decoded in the core, so that errors are exact."""

    ingest_ms: int  # assigned by the transport at append, monotone per partition
    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ChannelWrite:
    """One record for the bundle-state channel.

    Publish all writes of a step in order, atomically, BEFORE the step's state counts as
    committed. Do not publish after `valid_until_ms` (wall clock): append a `refused` command
    with the same decision id instead.
    """

    key: str  # the bundle
    value: bytes | None  # None: a tombstone, the bundle leaves the channel
    decision_id: str  # from content: the same decision has the same id in every replay
    version: int
    valid_until_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Figures for metrics and status at the end of a step; nothing is decided from them."""

    cluster: str
    clock_ms: int
    round_number: int
    brokers_live: int
    brokers_silent: int
    bundles: int
    bundles_owned: int
    in_flight: int
    pending: int
    requests: int
    is_warm: bool
    is_paused: bool
    mode: str  # act, warm_up, paused, safe_mode
    health: str  # Stable, Jittery, Unstable
    brokers_draining: int  # live ones that are to be emptied: drained, or leaving by themselves
    pins: int
    tainted: int  # bundles that compaction may change by a record that lost or is unreadable
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class StepResult:
    """All effects of one step."""

    state: ClusterState
    records: tuple[ChannelWrite, ...]
    rounds: tuple[bytes, ...]  # decision-log records, JSON
    rejects: tuple[Reject, ...]  # for the dead letters
    snapshot: Snapshot
