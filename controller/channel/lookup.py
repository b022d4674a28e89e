"""Who owns a bundle, answered from the record that stands for it; pure (pulsar.md 6.7).

    | State                 | Answer                                                          |
    |-----------------------|-----------------------------------------------------------------|
    | Owned / Splitting     | dst / src, after checking registration; inactive -> deferred    |
    |                       | until the leader repairs                                        |
    | Assigning / Releasing | self = dst -> deferred until Owned; else dst at once (empty if  |
    |                       | none)                                                           |
    | Init, Free            | empty (caller assigns)                                          |
    | Deleted               | error                                                           |

An answer tells a client where to go. It is no permission to serve: the destination of a
transfer is named before it owns the bundle, so that clients wait there. Called by the agents
for their brokers, by observers and by the CLI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from controller.channel.table import serving_broker
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, has_text

_S = ServiceUnitState
IsActive = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Owner:
    """The broker to go to."""

    broker: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """No answer yet; ask again when the next record of the bundle is accepted, or time is up.

    - `arriving`: the asker itself is the destination and waits until its Owned record is read.
    - `inactive`: the recorded owner `broker` is not registered; the leader has to repair it.
    - `nobody`: the record names no owner where it should; the leader has to repair it.
    """

    why: Literal["arriving", "inactive", "nobody"]
    broker: str | None


@dataclass(frozen=True, slots=True)
class Empty:
    """Nobody owns the bundle; the caller has it assigned."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The bundle cannot be looked up: `deleted` (look its children up), or `overdue`."""

    why: Literal["deleted", "overdue"]


Answer = Owner | Deferred | Empty | Failed


def lookup(
    record: ServiceUnitStateData | None, asker: str | None, is_active: IsActive | None
) -> Answer:
    """The owner by the record that stands; see the table above.

    `asker` None = not a broker. "If this broker itself is unregistered (metadata loss), it
    returns the recorded owner with no check": so too with `is_active` None, which means that
    nothing is known about registration.
    """
    state = _S.Init if record is None else record.state
    if record is None or state in (_S.Init, _S.Free):
        return Empty()
    if state is _S.Deleted:
        return Failed("deleted")
    if state in (_S.Owned, _S.Splitting):
        return _registered(serving_broker(record), asker, is_active)
    if not has_text(record.dstBroker):
        return Empty()
    assert record.dstBroker is not None  # it has text
    if record.dstBroker == asker:
        return Deferred("arriving", asker)
    return Owner(record.dstBroker)


def lookup_overdue(
    record: ServiceUnitStateData | None, asker: str | None, is_active: IsActive | None
) -> Answer:
    """The answer when a deferred one has waited its time: never `Deferred`.

    "Time limit ... then the current owner if determinable, else error."
    """
    answer = lookup(record, asker, is_active)
    return Failed("overdue") if isinstance(answer, Deferred) else answer


def is_owner(
    record: ServiceUnitStateData | None,
    broker: str,
    asker: str | None,
    is_active: IsActive | None,
) -> bool:
    """Pulsar.md 6.7: "`isOwner` is true only if the answer is immediate and equal"."""
    return lookup(record, asker, is_active) == Owner(broker)


def _registered(broker: str | None, asker: str | None, is_active: IsActive | None) -> Answer:
    if broker is None:
        return Deferred("nobody", None)
    if is_active is None or (asker is not None and not is_active(asker)):
        return Owner(broker)
    return Owner(broker) if is_active(broker) else Deferred("inactive", broker)
