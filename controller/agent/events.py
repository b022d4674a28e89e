"""What the agent core hears (events) and what it asks for (actions).

Events carry facts, actions carry orders; neither carries a clock: the time of an event is an
argument of `core.handle`. Built by the runtime and by tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.wire.channel import ServiceUnitStateData
from controller.wire.formats import BrokerStatus, TransportHealth


@dataclass(frozen=True, slots=True)
class ChannelRecord:
    """One record of the channel as read: bundle name, raw value (None = tombstone), offset."""

    key: str
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class Polled:
    """A poll of the channel that succeeded, whether or not it brought anything.

    `started_ms` is the monotonic time before the read began. `is_at_end` is false while more
    records may wait; only a poll that reached the end renews the lease, because what ends the
    right to serve may stand in the records that wait.
    """

    records: tuple[ChannelRecord, ...]
    started_ms: int
    is_at_end: bool = True


@dataclass(frozen=True, slots=True)
class Timer:
    """Time has passed; sent at least once per poll interval."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The log has acknowledged an append that carried a sign of life.

    `started_ms` is the monotonic time before the append began: the controller cannot miss this
    broker for any time that it counts from there.
    """

    started_ms: int


@dataclass(frozen=True, slots=True)
class TransportFailed:
    """A read or an append failed; it is tried again by the runtime, the core only says so."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The process is to end: tell the controller, and go on until nothing is served."""


@dataclass(frozen=True, slots=True)
class Closed:
    """`Broker.close` has returned: nothing is served any more. The last event of an agent."""


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
    """`Broker.split` ended; `error` is None when the boundaries hold the children.

    They are served then, if the parent was. `is_conflict`: somebody else changed the boundaries
    meanwhile, so it may well work the next time.
    """

    bundle: str
    error: str | None = None
    is_conflict: bool = False


Event = (
    Polled
    | Timer
    | Heard
    | TransportFailed
    | LeaseLost
    | Leave
    | Closed
    | Acquired
    | Released
    | SplitDone
)


@dataclass(frozen=True, slots=True)
class Publish:
    """Append a record to the channel; the runtime puts its wall time into `timestamp`."""

    key: str
    record: ServiceUnitStateData


@dataclass(frozen=True, slots=True)
class Acquire:
    """Start serving the bundle; answered by `Acquired`."""

    bundle: str


@dataclass(frozen=True, slots=True)
class Release:
    """Stop serving the bundle, gracefully; may take long; answered by `Released`.

    `destination` is the next owner if it is known: clients may stay connected until `Redirect`.
    """

    bundle: str
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop serving the bundle at once, ungracefully: nobody waits for its close.

    When it is carried out the bundle is not served, and an operation that still runs for it
    ends without serving. Not answered.
    """

    bundle: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """Tell clients that stayed connected after a release who owns the bundle now.

    `owner` None: the transfer ended otherwise; they have to look the bundle up. Not answered.
    """

    bundle: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class Split:
    """Put the children in the place of a bundle; answered by `SplitDone`.

    A bundle that is served hands its topics over to its children. One that is not (a split that
    was taken over) only gets its boundaries changed.
    """

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
    """Send a load report with this sequence number, or a heartbeat if nothing is worth a report.

    `is_forced`: bundles of this broker moved or were split since the last one was asked for.
    """

    sequence: int
    status: BrokerStatus = "up"
    transport: TransportHealth = "stable"
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat with this sequence number."""

    sequence: int
    status: BrokerStatus = "up"
    transport: TransportHealth = "stable"


Action = (
    Publish
    | Acquire
    | Release
    | Drop
    | Redirect
    | Split
    | Fence
    | Unfence
    | SendReport
    | SendHeartbeat
)
