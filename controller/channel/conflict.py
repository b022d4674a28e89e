"""The conflict rule: does a new record of the channel replace the old one?

The first valid record in log order wins. The order of the checks and their generosity are
Pulsar's (pulsar.md 6.4, `ServiceUnitStateDataConflictResolver` of 4.2.4), because all readers of
one channel must come to the same answer. The core and every agent fold the channel with this.

What may follow what is in `controller.channel.states`, what must hold between the brokers of two
records is in `BROKER_CHECKS`: rows of conditions in Pulsar's words, to be laid beside its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from controller.channel.states import TRANSITIONS, Storage
from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    has_text,
)

_S = ServiceUnitState
Condition = Literal[
    "new.dst blank",
    "new.dst not blank",
    "new.src blank",
    "new.src not blank",
    "old.dst ≠ new.src",
    "old.dst = new.dst",
    "dst differs",
    "src differs",
]
Row = tuple[Condition, ...]

# "Reject when": one condition of the row is enough. Transitions not named need nothing.
BROKER_CHECKS: Mapping[tuple[ServiceUnitState, ServiceUnitState], Row] = MappingProxyType(
    {
        (_S.Owned, _S.Splitting): ("new.dst not blank", "old.dst ≠ new.src"),
        (_S.Owned, _S.Releasing): ("new.src blank", "old.dst ≠ new.src", "old.dst = new.dst"),
        (_S.Assigning, _S.Owned): ("dst differs", "src differs"),
        (_S.Releasing, _S.Assigning): ("new.dst blank", "dst differs", "src differs"),
        (_S.Releasing, _S.Free): ("dst differs", "src differs"),
        (_S.Splitting, _S.Deleted): ("dst differs", "src differs"),
        (_S.Free, _S.Assigning): ("new.src not blank", "new.dst blank"),
    }
)

# What the words mean. "old.dst ≠ new.src" holds for every Owned record without destination:
# Pulsar 4.2.4 throws there, nobody owns it, and only a forced record can lead on from it.
_MEANING: Mapping[Condition, Callable[[ServiceUnitStateData, ServiceUnitStateData], bool]] = {
    "new.dst blank": lambda old, new: not has_text(new.dstBroker),
    "new.dst not blank": lambda old, new: has_text(new.dstBroker),
    "new.src blank": lambda old, new: not has_text(new.sourceBroker),
    "new.src not blank": lambda old, new: has_text(new.sourceBroker),
    "old.dst ≠ new.src": lambda old, new: (
        old.dstBroker is None or old.dstBroker != new.sourceBroker
    ),
    "old.dst = new.dst": lambda old, new: old.dstBroker == new.dstBroker,
    "dst differs": lambda old, new: old.dstBroker != new.dstBroker,
    "src differs": lambda old, new: old.sourceBroker != new.sourceBroker,
}

_OVERFLOW = LONG_MIN - LONG_MAX  # the gap where Java's long wraps

# Both tables as one, with the words looked up: storage -> old state -> new state -> checks.
_ALLOWED = {
    storage: {
        before: {
            state: tuple(_MEANING[words] for words in BROKER_CHECKS.get((before, state), ()))
            for state in after
        }
        for before, after in transitions.items()
    }
    for storage, transitions in TRANSITIONS.items()
}


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
    # 1. "new is a tombstone -> accept"
    if new is None:
        return None
    before = _S.Init if old is None else old.state
    if old is not None:
        # 2. "version MAX -> MIN (overflow) -> go on; old.v >= new.v -> reject; gap >= 2 ->
        #    accept at once on SystemTopic, reject on MetadataStore (even if forced)"
        gap = new.versionId - old.versionId
        if gap not in (1, _OVERFLOW):
            if gap < 1:
                return "stale_version"
            return None if storage == "log" else "gap"
    elif storage == "metadata":
        # 3. "old absent, MetadataStore -> accept iff new.v = 1, no other check"
        return None if new.versionId == 1 else "not_first_version"
    # 4. "force -> accept"
    if new.force:
        return None
    # 5. "transition not allowed -> reject"
    checks = _ALLOWED[storage][before].get(new.state)
    if checks is None:
        return "bad_transition"
    # 6. "broker checks"; a reader that begins in the middle has nothing to compare with
    if old is not None:
        for rejects in checks:
            if rejects(old, new):
                return "broker_mismatch"
    return None


def broken_check(old: ServiceUnitStateData, new: ServiceUnitStateData) -> Condition | None:
    """The first broker check that speaks against `new`, in Pulsar's words, for the reader."""
    row = BROKER_CHECKS.get((old.state, new.state), ())
    return next((words for words in row if _MEANING[words](old, new)), None)


def heals(loser_version: int, new: ServiceUnitStateData | None) -> bool:
    """True if `new`, which was accepted, ends what a losing record before it may do.

    A compaction that knows no conflict rule may keep the loser and remove the winner. A reader
    that begins with the loser then refuses what follows the winner, and comes to another answer
    than all others. Only a tombstone, or a forced record with a later version than the loser's,
    is accepted by both. `loser_version` is the greatest one; LONG_MIN for what is unreadable,
    which no reader takes, so that any record heals it.
    """
    if new is None or loser_version == LONG_MIN:
        return True
    return new.force and new.versionId > loser_version


def next_version(old: ServiceUnitStateData | None) -> int:
    """Version of the record that follows: 1 for the first, +1, and Java's wrap at the end."""
    if old is None:
        return 1
    return LONG_MIN if old.versionId == LONG_MAX else old.versionId + 1
