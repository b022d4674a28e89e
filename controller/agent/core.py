"""Pure core of the broker agent: `handle(state, event, now_ms) -> (state', actions)`.

Rules:

1. The channel decides. Records are folded by the conflict rule; a record that lost changes
   nothing. After each event the bundles it touched are compared with what their records say,
   and the difference becomes actions, so a missed moment is made up for at the next one.
2. A bundle is served only when this broker's own Owned record was read back as accepted. After
   a record that did not wait for the old owner (forced, a skipped version, the tombstone of an
   active bundle) nobody does anything new with the bundle for `takeover_grace_ms`, so that an
   old owner that can poll has stopped.
3. Any record that does not leave the bundle to this broker ends serving at once; the next
   record (Assigning or Free) is written only after the close.
4. A poll that succeeds renews the lease. When it runs out, everything stops; serving resumes
   only after the channel was read to its end again. A fenced agent sends no sign of life, so
   that the controller may give its bundles away.

Called by the runtime and by tests; no clock, no I/O.
"""

from __future__ import annotations

from controller.agent.events import (
    Acquired,
    Action,
    Event,
    Fence,
    LeaseLost,
    Polled,
    Released,
    SendHeartbeat,
    SendReport,
    SplitDone,
    Timer,
    Unfence,
)
from controller.agent.state import AgentSettings, AgentState, Phase
from controller.agent.turn import Turn


def handle(
    state: AgentState, event: Event, now_ms: int, settings: AgentSettings
) -> tuple[AgentState, tuple[Action, ...]]:
    """One event at monotonic time `now_ms`; `state` is left as it was.

    Times must not run backwards; events of one agent are handled one after the other.
    """
    turn = Turn(state, now_ms, settings)
    match event:
        case Polled():
            _polled(turn, event)
        case Timer():
            _timer(turn)
        case LeaseLost():
            _fence(turn)
        case Acquired():
            _acquired(turn, event)
        case Released():
            _released(turn, event)
        case SplitDone():
            _split_done(turn, event)
    return turn.finish()


def _polled(turn: Turn, event: Polled) -> None:
    for record in event.records:
        turn.fold(record)
    turn.polled_ms = max(event.started_ms, turn.polled_ms or event.started_ms)
    if turn.is_lease_over():
        return  # the read itself took too long: what it says may be old already
    if event.is_at_end and not turn.is_caught_up:
        turn.is_caught_up = True
        if turn.is_fenced:
            turn.is_fenced = False
            turn.act(Unfence())
        turn.touch(turn.table)
    turn.reconcile()
    _signs_of_life(turn)


def _timer(turn: Turn) -> None:
    if turn.is_lease_over():
        _fence(turn)
        return
    turn.touch_due()
    turn.reconcile()
    _signs_of_life(turn)


def _fence(turn: Turn) -> None:
    """Rule 4: nothing is served after this; operations still running are waited for."""
    if turn.is_fenced:
        return
    turn.is_fenced = True
    turn.is_caught_up = False
    turn.count(fences=1)
    turn.published.clear()
    turn.wait_until_ms.clear()
    turn.phases = {
        bundle: Phase.CLOSING for bundle, phase in turn.phases.items() if phase != Phase.SERVING
    }
    turn.act(Fence())


def _signs_of_life(turn: Turn) -> None:
    """A report counts as a heartbeat; none before the channel is known or while fenced."""
    if not turn.is_caught_up:
        return
    if turn.now_ms >= turn.report_due_ms:
        turn.sequence += 1
        turn.report_due_ms = turn.now_ms + turn.settings.report_interval_ms
        turn.heartbeat_due_ms = turn.now_ms + turn.settings.heartbeat_interval_ms
        turn.act(SendReport(turn.sequence))
    elif turn.now_ms >= turn.heartbeat_due_ms:
        turn.sequence += 1
        turn.heartbeat_due_ms = turn.now_ms + turn.settings.heartbeat_interval_ms
        turn.act(SendHeartbeat(turn.sequence))


def _acquired(turn: Turn, event: Acquired) -> None:
    """An acquire that a fence overtook ended without serving (the port promises it)."""
    phase = turn.phases.pop(event.bundle, None)
    if phase == Phase.OPENING and event.error is None:
        turn.phases[event.bundle] = Phase.SERVING
    _after_operation(turn, event.bundle, event.error)


def _released(turn: Turn, event: Released) -> None:
    """A failed close keeps its phase: the next record is not written, it is tried again."""
    turn.phases.pop(event.bundle, None)
    if event.error is not None and not turn.is_fenced:
        turn.phases[event.bundle] = Phase.SERVING
    _after_operation(turn, event.bundle, event.error)


def _split_done(turn: Turn, event: SplitDone) -> None:
    phase = turn.phases.pop(event.bundle, None)
    if phase == Phase.SPLITTING:
        served = turn.splits.get(event.bundle, ()) if event.error is None else (event.bundle,)
        turn.phases.update(dict.fromkeys(served, Phase.SERVING))
    _after_operation(turn, event.bundle, event.error)


def _after_operation(turn: Turn, bundle: str, error: str | None) -> None:
    if error is not None:
        turn.count(failures=1)
        turn.wait_until_ms[bundle] = turn.now_ms + turn.settings.retry_ms
    turn.touch((bundle, *turn.splits.get(bundle, ())))
    turn.forget_split(bundle)
    turn.reconcile()
