"""Keeps the channel itself tidy: reassertions and tombstones (pulsar.md §6.8).

Rules:

1. A tainted bundle (a record lost, or could not be read, and none has healed it since:
   `conflict.heals`) in Owned, Free or Deleted gets a forced record of the same state and brokers:
   a compaction keeps the last record of a key, even one that lost. The next version is not always
   above the loser's; then there is one more. What is in flight waits until it has settled.
2. A bundle that is Free or Deleted for `tombstone_delay_ms` gets a tombstone. Before that, a
   late duplicate of an old record still meets a version that it loses against; such a loser
   taints, and the reassertion begins the delay anew.
3. A tombstone has no version and always wins. So none is written while a move or a request of
   the bundle is pending, and nothing is written for the bundle while a tombstone is.
4. All forced records and tombstones that are not read back yet count against
   `overrides_per_round_max`. Nothing is written unless the picture is Stable.

Called by `controller.core.rounds.ticks` at every tick, after the repairs.
"""

from __future__ import annotations

import numpy as np

from controller.channel.conflict import next_version
from controller.core.fold.ownership import channel_record
from controller.core.rounds.decide import Wish, write_reassert, write_tombstone
from controller.core.state.tables import DELETED, FREE, OWNED, STATES
from controller.core.view.build import Health, Liveness, is_in_flight
from controller.core.work import Work
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.wire.decisions import DecisionEntry

LIMITED_KINDS = ("override", "reassert", "tombstone")


def records_allowed(work: Work) -> int:
    """How many more forced records and tombstones may be written now."""
    outstanding = sum(
        move.seen_ms == 0 and move.kind in LIMITED_KINDS
        for move in work.state.memory.moves.values()
    )
    return max(0, work.settings.actions.overrides_per_round_max - outstanding)


def monitor(
    work: Work, now_ms: int, mode: str, alive: Liveness, tally: VerdictTally
) -> list[DecisionEntry]:
    """Reassertions first, then tombstones, each by name; bounded."""
    if alive.health is not Health.STABLE or mode not in ("act", "paused"):
        return []
    tainted, old = _tainted(work), _old(work, now_ms)
    allowed = records_allowed(work)
    tally.count(Reason.ROUND_LIMIT, max(0, len(tainted) + len(old) - allowed))
    decisions = [_reassert(work, name, now_ms) for name in tainted[:allowed]]
    left = allowed - len(decisions)
    return decisions + [_bury(work, name, now_ms) for name in old[:left]]


def tell_losers(work: Work, tally: VerdictTally) -> bool:
    """Verdicts on records that lost since the last line of the log; False if there are none."""
    memory = work.state.memory
    told = bool(memory.losses or memory.losses_more)
    for loss in memory.losses:
        inputs = (("why", loss.reason), ("version", float(loss.version)), ("broker", loss.broker))
        flips_if = "it follows the record that stands: the next version, an allowed transition"
        tally.add(Verdict(loss.bundle, Reason.LOST_RACE, inputs, flips_if=flips_if))
    tally.count(Reason.LOST_RACE, memory.losses_more)
    memory.losses, memory.losses_more = [], 0
    return told


def _tainted(work: Work) -> list[str]:
    bundles, moves = work.state.bundles, work.state.memory.moves
    found = []
    for name, loser in sorted(work.state.memory.tainted.items()):
        slot, move = bundles.slots[name], moves.get(name)
        is_settled = int(bundles["state"][slot]) in (OWNED, FREE, DELETED)
        is_busy = move is not None and is_in_flight(move)
        # Behind the greatest version there is none that could heal it; only a tombstone does.
        if is_settled and not is_busy and next_version(channel_record(work, slot)) >= loser:
            found.append(name)
    return found


def _old(work: Work, now_ms: int) -> list[str]:
    """Free and Deleted bundles that nobody asked for or touched for long enough."""
    bundles, memory = work.state.bundles, work.state.memory
    state = bundles["state"]
    is_over = (state == FREE) | (state == DELETED)
    if not is_over.any():
        return []
    age_ms = now_ms - bundles["since_ms"]
    is_old = is_over & (age_ms >= work.settings.actions.tombstone_delay_ms)
    names = [bundles.names[slot] for slot in np.flatnonzero(is_old).tolist()]
    busy = (memory.moves, memory.requests, memory.tainted)
    return sorted(name for name in names if not any(name in table for table in busy))


def _reassert(work: Work, name: str, now_ms: int) -> DecisionEntry:
    bundles = work.state.bundles
    slot = bundles.slots[name]
    owner = int(bundles["serving"][slot])
    to = work.state.brokers.names[owner] if owner >= 0 else None
    detail = f"a record that lost came after {STATES[int(bundles['state'][slot])]}"
    return write_reassert(work, Wish("reassert", name, None, to, "tainted", detail), now_ms)


def _bury(work: Work, name: str, now_ms: int) -> DecisionEntry:
    bundles = work.state.bundles
    slot = bundles.slots[name]
    age_s = (now_ms - int(bundles["since_ms"][slot])) / 1000
    detail = f"{STATES[int(bundles['state'][slot])]} for {age_s:.0f} s"
    return write_tombstone(work, Wish("tombstone", name, None, None, "old", detail), now_ms)
