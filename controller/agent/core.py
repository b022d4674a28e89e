"""Pure core of the broker agent: `handle(state, event, now_ms, settings) -> (state', actions)`.

Rules:

1. The channel decides. Records are folded by the conflict rule; a record that lost changes
   nothing. After each event the bundles it touched are compared with what their records say,
   and the difference becomes actions, so a missed moment is made up for at the next one.
2. A bundle is served only when this broker's own Owned record was read back as accepted. After
   a record that did not wait for the old owner (forced, a skipped version, the tombstone of an
   active bundle) nobody does anything new with the bundle for `takeover_grace_ms`, so that an
   old owner that can poll has stopped.
3. Releasing closes gracefully, and the next record (Assigning or Free) is written only after the
   close. Any other record that does not leave the bundle to this broker did not wait for it:
   serving ends at once, also in the middle of a close.
4. Serving is allowed up to the deadline of the lease (`state.deadline_ms`). Past it, everything
   stops; serving resumes when the channel was read to its end again and the new deadline holds.
5. Signs of life are sent while the channel is read, and by nobody else: they are the health check
   by which the controller leaves bundles here. They go on while only the heard leg has failed,
   or it could never recover.

Called by the runtime, by simulations and by tests; no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import replace

from controller.agent.events import (
    Acquired,
    Action,
    Closed,
    Event,
    Heard,
    LeaseLost,
    Leave,
    Polled,
    Released,
    SendHeartbeat,
    SendReport,
    SplitDone,
    Timer,
    TransportFailed,
)
from controller.agent.obey import reconcile, touch_due
from controller.agent.state import AgentSettings, AgentState, Phase
from controller.agent.turn import Turn
from controller.wire.channel import ServiceUnitState, has_text


def handle(
    state: AgentState, event: Event, now_ms: int, settings: AgentSettings
) -> tuple[AgentState, tuple[Action, ...]]:
    """One event at monotonic time `now_ms`; `state` is left as it was.

    Times must not run backwards; events of one agent are handled one after the other. A lease
    that ran out since the last event fences first, whatever the event brings.
    """
    if state.status == "gone":
        return state, ()
    turn = Turn(state, now_ms, settings)
    if isinstance(event, Closed):
        _closed(turn)
        return turn.finish()
    if turn.is_past_deadline() or isinstance(event, LeaseLost):
        turn.fence()
    if turn.is_read_leg_over():
        turn.is_caught_up = False
    _dispatch(turn, event)
    return turn.finish()


def _dispatch(turn: Turn, event: Event) -> None:
    match event:
        case Polled():
            _polled(turn, event)
        case Timer():
            touch_due(turn)
            reconcile(turn)
            _signs_of_life(turn)
        case Heard():
            _heard(turn, event)
        case TransportFailed():
            turn.note_jitter()
        case Acquired():
            _acquired(turn, event)
        case Released():
            _released(turn, event)
        case SplitDone():
            _split_done(turn, event)
        case Leave():
            _leave(turn)
        case LeaseLost() | Closed():
            pass  # the fence was all, or comes too late


def _polled(turn: Turn, event: Polled) -> None:
    for record in event.records:
        turn.fold(record)
    if event.is_at_end:
        _read_to_end(turn, event.started_ms)
    reconcile(turn)
    _signs_of_life(turn)


def _read_to_end(turn: Turn, started_ms: int) -> None:
    turn.read_ms = max(started_ms, turn.read_ms or started_ms)
    if turn.heard_wait is not None:
        last_ms, first_ms = turn.heard_wait
        if started_ms >= first_ms + turn.settings.heard_settle_ms:
            turn.heard_ms, turn.heard_wait = last_ms, None
    if turn.is_past_deadline():
        turn.fence()  # this read took too long itself: what it says may be old already
    if turn.is_read_leg_over():
        return
    if not turn.is_caught_up:
        turn.is_caught_up = True
        turn.touch(turn.table)
    turn.resume()


def _heard(turn: Turn, event: Heard) -> None:
    """While the heard leg holds, each sign of life prolongs it; after a gap see `heard_wait`."""
    lease_ms, now_ms = turn.settings.lease_ms, turn.now_ms
    if turn.heard_ms is not None and now_ms <= turn.heard_ms + lease_ms:
        turn.heard_ms = max(turn.heard_ms, event.started_ms)
    elif turn.heard_wait is None or now_ms > turn.heard_wait[0] + lease_ms:
        turn.heard_wait = (event.started_ms, now_ms)
    else:
        turn.heard_wait = (max(turn.heard_wait[0], event.started_ms), turn.heard_wait[1])
    turn.resume()
    reconcile(turn)


def _signs_of_life(turn: Turn) -> None:
    """A report counts as a heartbeat; none before the channel is known."""
    if not turn.is_caught_up:
        return
    if turn.now_ms >= turn.report_due_ms:
        turn.sequence += 1
        turn.report_due_ms = turn.now_ms + turn.settings.report_interval_ms
        turn.heartbeat_due_ms = turn.now_ms + turn.settings.heartbeat_interval_ms
        health, is_forced = turn.transport_health(), turn.is_report_forced
        turn.act(SendReport(turn.sequence, turn.status, health, is_forced))
        turn.is_report_forced = False
    elif turn.now_ms >= turn.heartbeat_due_ms:
        _send_heartbeat(turn)


def _send_heartbeat(turn: Turn) -> None:
    turn.sequence += 1
    turn.heartbeat_due_ms = turn.now_ms + turn.settings.heartbeat_interval_ms
    turn.act(SendHeartbeat(turn.sequence, turn.status, turn.transport_health()))


def _leave(turn: Turn) -> None:
    """The controller hears of it at once, or as soon as signs of life are sent again."""
    if turn.status == "up":
        turn.status = "leaving"
        turn.heartbeat_due_ms = turn.now_ms
        _signs_of_life(turn)


def _closed(turn: Turn) -> None:
    """Said even by an agent that cannot read: that it serves nothing is true in any case."""
    turn.phases.clear()
    turn.status = "gone"
    _send_heartbeat(turn)


def _acquired(turn: Turn, event: Acquired) -> None:
    """An acquire that a fence or a drop overtook ended without serving (the port promises it)."""
    phase = turn.phases.get(event.bundle)
    if phase in (Phase.OPENING, Phase.UNSERVED):
        del turn.phases[event.bundle]
    if phase == Phase.OPENING and event.error is None:
        turn.phases[event.bundle] = Phase.SERVING
    _after_operation(turn, event.bundle, event.error, turn.settings.retry_ms)


def _released(turn: Turn, event: Released) -> None:
    """After a failed close the bundle is served as before, and no record is written."""
    bundle, phase = event.bundle, turn.phases.get(event.bundle)
    if phase in (Phase.CLOSING, Phase.UNSERVED):
        del turn.phases[bundle]
    if phase == Phase.CLOSING:
        if event.error is not None:
            turn.phases[bundle] = Phase.SERVING
        elif _is_transfer(turn, bundle):
            turn.transfers.add(bundle)
    _after_operation(turn, bundle, event.error, turn.settings.retry_ms)


def _is_transfer(turn: Turn, bundle: str) -> bool:
    record = turn.table.get(bundle)
    is_releasing = record is not None and record.state == ServiceUnitState.Releasing
    return is_releasing and record is not None and has_text(record.dstBroker)


def _split_done(turn: Turn, event: SplitDone) -> None:
    bundle, phase = event.bundle, turn.phases.get(event.bundle)
    work = turn.splits.get(bundle)
    if phase in (Phase.SPLITTING, Phase.UNSERVED):
        del turn.phases[bundle]
    if phase == Phase.SPLITTING:
        is_split = event.error is None and work is not None
        served = work.children if is_split and work is not None else (bundle,)
        turn.phases.update(dict.fromkeys(served, Phase.SERVING))
    pause_ms = turn.settings.retry_ms
    if work is not None and event.error is None:
        turn.splits[bundle] = replace(work, is_done=True)
    elif work is not None and event.is_conflict:
        pause_ms = turn.settings.split_retry_ms
        turn.splits[bundle] = replace(work, tries=work.tries + 1)
        if work.tries + 1 == turn.settings.split_tries_max:
            turn.count_reason("split_given_up")
    _after_operation(turn, bundle, event.error, pause_ms)


def _after_operation(turn: Turn, bundle: str, error: str | None, pause_ms: int) -> None:
    if error is not None:
        turn.count(failures=1)
        turn.wait_until_ms[bundle] = turn.now_ms + pause_ms
    turn.touch((bundle, *turn.children(bundle)))
    turn.forget_split(bundle)
    reconcile(turn)
