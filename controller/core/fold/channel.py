"""Folds records of the bundle-state channel into the ownership table (feedback is an input).

A record counts only if the conflict rule accepts it; one that lost, or could not be read, taints
its bundle until a record heals it (`conflict.heals`). Moves of ours are confirmed here (our
record came back), advanced (source stopped, destination owns), or found lost (another record took
the version).
"""

from __future__ import annotations

from controller.channel.conflict import heals, keep_old
from controller.core.fold.ownership import STATE_NUMBER, channel_record
from controller.core.inputs import RawRecord
from controller.core.state.memory import Loss, Move, Request
from controller.core.state.tables import (
    ASSIGNING,
    DELETED,
    FREE,
    INIT,
    OWNED,
    RELEASING,
    SPLITTING,
)
from controller.core.work import Work
from controller.model.bundles import BundleNameError, split_name
from controller.wire.channel import LONG_MIN, ServiceUnitStateData, decode_channel, has_text
from controller.wire.rejects import WireError


def fold_channel(work: Work, record: RawRecord) -> None:
    """One record of the cluster's channel topic; raises `WireError` for what is unreadable."""
    if record.key is None:
        raise WireError("missing_field", "key", "a channel record needs the bundle as its key")
    slot = work.state.bundles.slots.get(record.key)
    try:
        new = decode_channel(record.value, work.settings.limits)
    except WireError:
        if slot is None:
            _check_name(record.key)
        _taint(work, record.key, LONG_MIN)
        raise
    if slot is None:
        if new is None:
            _check_name(record.key)
            return
        slot = work.bundle(record.key)
    loses = keep_old(channel_record(work, slot), new)
    if loses is not None:
        assert new is not None  # a tombstone always wins
        _note_loser(work, record.key, new, loses)
    elif new is None:
        _tombstone(work, record.key)
    else:
        _accept(work, record.key, slot, new, record.ingest_ms)


def _check_name(key: str) -> None:
    """Blames the key first where both are bad; for good records `Work.bundle` checks it."""
    try:
        split_name(key)
    except BundleNameError as error:
        raise WireError("bad_name", "key", str(error)) from None


def _note_loser(work: Work, name: str, new: ServiceUnitStateData, reason: str) -> None:
    """Counts a record that lost; the next line of the decision log tells of it."""
    memory = work.state.memory
    memory.count("losing_records")
    memory.count(f"losing_records_{reason}")
    broker = new.dstBroker or new.sourceBroker or ""
    if len(memory.losses) < work.settings.log.verdicts_top:
        loss = Loss(bundle=name, reason=reason, version=new.versionId, broker=broker)
        memory.losses.append(loss)
    else:
        memory.losses_more += 1
    _taint(work, name, new.versionId)
    _drop_if_lost(work, name, new)


def _taint(work: Work, name: str, version: int) -> None:
    """A compaction that knows no conflict rule may keep this record instead of the winner."""
    slot, tainted = work.state.bundles.slots.get(name), work.state.memory.tainted
    if slot is not None and int(work.state.bundles["state"][slot]) != INIT:
        tainted[name] = max(version, tainted.get(name, version))


def _accept(work: Work, name: str, slot: int, new: ServiceUnitStateData, now_ms: int) -> None:
    bundles, memory = work.state.bundles, work.state.memory
    state = STATE_NUMBER[new.state.value]
    destination = _broker(work, new.dstBroker, now_ms)
    source = _broker(work, new.sourceBroker, now_ms)
    before = int(bundles["serving"][slot])
    serving = {OWNED: destination, RELEASING: source, SPLITTING: source}.get(state, -1)
    bundles["state"][slot] = state
    bundles["destination"][slot] = destination
    bundles["source"][slot] = source
    bundles["serving"][slot] = serving
    bundles["version"][slot] = new.versionId
    bundles["since_ms"][slot] = now_ms
    if name in memory.tainted and heals(memory.tainted[name], new):
        del memory.tainted[name]
    if before >= 0 and serving != before and state in (FREE, ASSIGNING, OWNED):
        # A forced record takes the bundle from a broker that is gone: it may go back there.
        _left(work, slot, -1 if new.force else before, now_ms)
        work.state.brokers["unloaded_ms"][before] = now_ms
        work.state.brokers["ema_samples"][before] = 0
    if state == SPLITTING:
        memory.children[name] = sorted(new.splitServiceUnitToDestBroker or {})
    else:
        memory.children.pop(name, None)
    if state == FREE:
        memory.requests.setdefault(name, Request(asked_ms=now_ms, who="channel"))
        work.is_answer_due = True
    else:
        memory.requests.pop(name, None)
    if state == DELETED:
        memory.pins.pop(name, None)
        memory.topics.pop(name, None)
    _advance_move(work, name, new, state, now_ms)


def _broker(work: Work, name: str | None, now_ms: int) -> int:
    return work.broker(name, now_ms) if name is not None and has_text(name) else -1


def _left(work: Work, slot: int, broker: int, now_ms: int) -> None:
    """Remembers where a bundle came from (-1 = it does not matter), for the cool-downs."""
    work.flush()  # its rate must not depend on which reports came in the same batch
    bundles = work.state.bundles
    bundles["left"][slot] = broker
    bundles["left_rate"][slot] = bundles["short"][slot, :2].sum()
    bundles["moved_ms"][slot] = now_ms


def _advance_move(
    work: Work, name: str, new: ServiceUnitStateData, state: int, now_ms: int
) -> None:
    moves = work.state.memory.moves
    move = moves.get(name)
    if move is None or move.kind == "tombstone":
        return  # a tombstone wins whatever comes before it: it is on its way until it is read back
    if move.seen_ms == 0:
        if new.decisionId == move.decision_id:
            move.seen_ms = now_ms
        elif new.versionId >= move.version:
            _lose(work, name)
            return
    if move.seen_ms and state in (ASSIGNING, FREE, OWNED, DELETED) and move.left_ms == 0:
        move.left_ms = now_ms
    if state == OWNED:
        move.arrived_ms = now_ms
    is_elsewhere = state == OWNED and new.dstBroker != move.destination
    if state in (FREE, DELETED) or is_elsewhere or move.kind == "reassert":
        del moves[name]


def _drop_if_lost(work: Work, name: str, new: ServiceUnitStateData) -> None:
    """A record of ours that came back as the loser is reported as lost and forgotten."""
    move = work.state.memory.moves.get(name)
    if move is not None and move.seen_ms == 0 and new.decisionId == move.decision_id:
        _lose(work, name)


def _lose(work: Work, name: str) -> Move:
    work.state.memory.count("lost_races")
    return work.state.memory.moves.pop(name)


def _tombstone(work: Work, name: str) -> None:
    """The bundle is gone from the channel; its slot is freed.

    A request that came while a tombstone of ours was on its way is answered now, as that of a
    bundle that is new; anybody else's tombstone means that the bundle is not wanted any more.
    """
    work.flush()
    memory = work.state.memory
    move = memory.moves.get(name)
    if move is None or move.kind != "tombstone":
        memory.requests.pop(name, None)
    for table in (memory.children, memory.moves, memory.tainted):
        table.pop(name, None)
    work.forget_bundle(name)
    if name in memory.requests:
        work.bundle(name)
        work.is_answer_due = True
