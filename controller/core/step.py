"""`step`: the one call that decides anything.

The caller's duties, in order:

1. Give all records of one cluster that a micro-batch brought, in any order; `step` sorts them by
   (ingest time, topic, partition, offset).
2. Publish `records` atomically, in order, then `rounds` to the decision log and `rejects` to the
   dead letters; all of it in the same transaction where the transport can.
3. Keep `state` for the next call (`state.encode_state`), in step with what was published.
4. See that time passes: append a `tick` command at every tick + settle_ms, so that rounds are
   due although every broker is silent.

Time is the ingest time of records. The round of tick T runs when the first record with an ingest
time of at least T + settle_ms is seen, before that record is folded; so the same log gives the
same decisions however it is cut into batches. A call without records may pass a later `now_ms`:
then, and only then, rounds take their time from it.

Where a log has no order over all its partitions (Kafka), a batch that catches up may hold later
records of one partition than of another, and silence would be seen where records were not read
yet. There `is_paced_by_ticks` is set: a tick is appended only when everything before it was read,
and rounds run at ticks alone; those of the time before are left out, not made up for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.core.dynamic import effective
from controller.core.fold.channel import fold_channel
from controller.core.fold.commands import fold_command
from controller.core.fold.reports import fold_report
from controller.core.inputs import RawRecord, Snapshot, StepResult
from controller.core.rounds.answers import answer_requests, is_warm
from controller.core.rounds.ticks import mode_of, run_tick
from controller.core.settings import Settings
from controller.core.state import ClusterState
from controller.core.state.tables import OWNED
from controller.core.view.build import is_in_flight, liveness
from controller.core.work import Work
from controller.wire.limits import WireLimits
from controller.wire.rejects import Reject, WireError, make_reject


def step(
    state: ClusterState, inputs: Sequence[RawRecord], now_ms: int, settings: Settings
) -> StepResult:
    """Folds records, runs the rounds that are due, and returns all effects.

    `state` is left as it was. Same arguments, same bytes out.
    """
    work = Work(state.copy(), effective(settings, state.memory.overrides), settings)
    is_paced = settings.is_paced_by_ticks
    for record in sorted(inputs, key=_order):
        _advance(work, record.ingest_ms, runs_ticks=not is_paced)
        _fold(work, record)
        if work.is_tick and is_paced:
            # Its writer has waited for settle_ms, by a clock that may be ahead of the log's.
            _run_ticks(work, record.ingest_ms + settings.rounds.settle_ms, made_up_max=1)
        work.is_tick = False
    if not inputs:
        _advance(work, now_ms, runs_ticks=not is_paced)
    work.flush()
    return StepResult(
        state=work.state,
        records=tuple(work.writes),
        rounds=tuple(work.logged),
        rejects=tuple(work.rejects),
        snapshot=_snapshot(work),
    )


def reject_unrouted(inputs: Sequence[RawRecord], limits: WireLimits) -> tuple[Reject, ...]:
    """Dead letters for records whose cluster is not known (the group `_unrouted`)."""
    error = WireError("unrouted", "key", "the key names no configured cluster (cluster/broker)")
    return tuple(
        make_reject(r.topic, r.partition, r.offset, r.key, r.ingest_ms, r.value, error)
        for r in sorted(inputs, key=_order)
    )


def _order(record: RawRecord) -> tuple[int, str, int, int]:
    return (record.ingest_ms, record.topic, record.partition, record.offset)


def _advance(work: Work, now_ms: int, *, runs_ticks: bool) -> None:
    """Moves the log's clock on, and runs the ticks that become due."""
    memory, rounds = work.state.memory, work.settings.rounds
    every = rounds.upkeep_interval_ms
    if now_ms <= memory.clock_ms:
        return
    if memory.started_ms == 0:
        memory.started_ms = now_ms
        memory.next_tick_ms = (now_ms // every + 1) * every
    warm_before = is_warm(work, memory.clock_ms)
    memory.clock_ms = now_ms
    work.is_answer_due |= not warm_before and is_warm(work, now_ms)
    if runs_ticks:
        _run_ticks(work, now_ms, rounds.catchup_ticks_max)


def _run_ticks(work: Work, now_ms: int, made_up_max: int) -> None:
    """Runs the ticks that are due; after a long silence only the last `made_up_max` of them."""
    memory, rounds = work.state.memory, work.settings.rounds
    every = rounds.upkeep_interval_ms
    due = (now_ms - rounds.settle_ms - memory.next_tick_ms) // every + 1
    if due > made_up_max:
        memory.next_tick_ms += (due - made_up_max) * every
        memory.count("skipped_ticks", due - made_up_max)
    while memory.next_tick_ms + rounds.settle_ms <= now_ms:
        tick_ms = memory.next_tick_ms
        memory.next_tick_ms = tick_ms + every
        run_tick(work, tick_ms)


def _fold(work: Work, record: RawRecord) -> None:
    """Folds one record once: a record that was seen before (by offset) is passed over."""
    memory, settings = work.state.memory, work.settings
    place = f"{record.topic}/{record.partition}"
    if record.offset <= memory.offsets.get(place, -1):
        memory.count("repeated_records")
        return
    memory.offsets[place] = record.offset
    try:
        if record.topic == settings.commands_topic:
            fold_command(work, record)
        else:
            work.desk = None
            if record.topic == settings.channel_topic:
                fold_channel(work, record)
            else:
                fold_report(work, record)
    except WireError as error:
        work.reject(record, error)
    if work.is_answer_due:
        answer_requests(work, record.ingest_ms)


def _snapshot(work: Work) -> Snapshot:
    memory, state = work.state.memory, work.state
    alive = liveness(work, memory.clock_ms)
    emptied = alive.is_leaving | alive.is_draining
    moves = memory.moves.values()
    return Snapshot(
        cluster=memory.cluster,
        clock_ms=memory.clock_ms,
        round_number=memory.round_number,
        brokers_live=int(alive.is_live.sum()),
        brokers_silent=alive.silent,
        bundles=len(state.bundles),
        bundles_owned=int(np.count_nonzero(state.bundles["state"] == OWNED)),
        in_flight=sum(is_in_flight(move) for move in moves),
        pending=sum(move.seen_ms == 0 for move in moves),
        requests=len(memory.requests),
        is_warm=is_warm(work, memory.clock_ms),
        is_paused=memory.paused_until_ms != 0,
        mode=mode_of(work, memory.clock_ms, alive),
        health=alive.health.value,
        brokers_draining=int(emptied.sum()),
        pins=len(memory.pins),
        tainted=len(memory.tainted),
        counters=dict(sorted(memory.counters.items())),
    )
