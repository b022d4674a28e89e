"""What the agent core hears (events) and what it asks for (actions).

Events carry facts, actions carry orders; neither carries a clock: the time of an event is an
argument of `core.handle`. Built by the runtime and by tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.wire.channel import ServiceUnitStateData


@dataclass(frozen=True, slots=True)
class ChannelRecord:
    """One record of the channel as read: bundle name, raw value (None = tombstone), offset."""

    key: str
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class Polled:
    """A poll of the channel that succeeded, whether or not it brought anything.

    `started_ms` is the monotonic time before the read began: the lease runs from there.
    `is_at_end` is false while more records are known to wait.
    """

    records: tuple[ChannelRecord, ...]
    started_ms: int
    is_at_end: bool = True


@dataclass(frozen=True, slots=True)
class Timer:
    """Time has passed; sent at least once per poll interval, and always before `Polled`."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The watchdog has fenced the broker while no event could come."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """`Broker.acquire` ended; `error` is None when the bundle is served."""

    bundle: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """`Broker.release` ended; `error` is None when the bundle is closed."""

    bundle: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SplitDone:
    """`Broker.split` ended; `error` is None when the children are served and the parent is not."""

    bundle: str
    error: str | None = None


Event = Polled | Timer | LeaseLost | Acquired | Released | SplitDone


@dataclass(frozen=True, slots=True)
class Publish:
    """Append a record to the channel; the runtime puts its wall time into `timestamp`."""

    key: str
    record: ServiceUnitStateData | None


@dataclass(frozen=True, slots=True)
class Acquire:
    """Start serving the bundle; answered by `Acquired`."""

    bundle: str


@dataclass(frozen=True, slots=True)
class Release:
    """Stop serving the bundle; may take long; answered by `Released`."""

    bundle: str


@dataclass(frozen=True, slots=True)
class Split:
    """Hand the topics of a served bundle over to its children; answered by `SplitDone`."""

    bundle: str
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Stop serving everything at once, and forget what was waiting to be published."""


@dataclass(frozen=True, slots=True)
class Unfence:
    """Serving is allowed again; the bundles follow one by one as `Acquire`."""


@dataclass(frozen=True, slots=True)
class SendReport:
    """Send a load report with this sequence number."""

    sequence: int


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat with this sequence number."""

    sequence: int


Action = Publish | Acquire | Release | Split | Fence | Unfence | SendReport | SendHeartbeat
