"""The conflict rule: does a new record of the channel replace the old one?

The first valid record in log order wins. The order of the checks and their generosity are
Pulsar's (pulsar.md §6.4, `ServiceUnitStateDataConflictResolver` of 4.2.4), because all readers of
one channel must come to the same answer. The core and every agent fold the channel with this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from controller.channel.states import TRANSITIONS, Storage
from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    has_text,
)

_S = ServiceUnitState
_Check = Callable[[ServiceUnitStateData, ServiceUnitStateData], bool]


def _same_brokers(old: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    return (old.dstBroker, old.sourceBroker) == (new.dstBroker, new.sourceBroker)


def _splits_what_it_owns(old: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    return not has_text(new.dstBroker) and _is_owner(old, new.sourceBroker)


def _releases_to_another(old: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    is_by_owner = has_text(new.sourceBroker) and _is_owner(old, new.sourceBroker)
    return is_by_owner and old.dstBroker != new.dstBroker


def _hands_over(old: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    return has_text(new.dstBroker) and _same_brokers(old, new)


def _takes_up(old: ServiceUnitStateData, new: ServiceUnitStateData) -> bool:
    return has_text(new.dstBroker) and not has_text(new.sourceBroker)


def _is_owner(old: ServiceUnitStateData, broker: str | None) -> bool:
    """False for an Owned record without destination: Pulsar 4.2.4 throws there, nobody owns it.

    Only a forced record can lead on from such a record.
    """
    return old.dstBroker is not None and old.dstBroker == broker


# What must hold between the brokers of the two records; transitions not named need nothing.
BROKER_CHECKS: Mapping[tuple[ServiceUnitState, ServiceUnitState], _Check] = MappingProxyType(
    {
        (_S.Owned, _S.Splitting): _splits_what_it_owns,
        (_S.Owned, _S.Releasing): _releases_to_another,
        (_S.Assigning, _S.Owned): _same_brokers,
        (_S.Releasing, _S.Assigning): _hands_over,
        (_S.Releasing, _S.Free): _same_brokers,
        (_S.Splitting, _S.Deleted): _same_brokers,
        (_S.Free, _S.Assigning): _takes_up,
    }
)


def keep_old(
    old: ServiceUnitStateData | None,
    new: ServiceUnitStateData | None,
    storage: Storage = "log",
) -> str | None:
    """None if `new` is accepted, else why it loses; `old` None = no record, `new` None = tombstone.

    Reasons: stale_version, gap (metadata store only), not_first_version (metadata store only),
    bad_transition, broker_mismatch. On the log a gap of two or more versions is accepted with no
    further check, so a writer must never skip a version.
    """
    if new is None:
        return None
    if old is not None and (old.versionId, new.versionId) != (LONG_MAX, LONG_MIN):
        if old.versionId >= new.versionId:
            return "stale_version"
        if new.versionId - old.versionId >= 2:
            return None if storage == "log" else "gap"
    if old is None and storage == "metadata":
        return None if new.versionId == 1 else "not_first_version"
    if new.force:
        return None
    before = _S.Init if old is None else old.state
    if new.state not in TRANSITIONS[storage][before]:
        return "bad_transition"
    check = BROKER_CHECKS.get((before, new.state))
    if old is not None and check is not None and not check(old, new):
        return "broker_mismatch"
    return None


def next_version(old: ServiceUnitStateData | None) -> int:
    """Version of the record that follows: 1 for the first, +1, and Java's wrap at the end."""
    if old is None:
        return 1
    return LONG_MIN if old.versionId == LONG_MAX else old.versionId + 1
