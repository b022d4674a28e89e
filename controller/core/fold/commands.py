"""Folds commands: of operators, of agents (assignment requests), of the sink (refusals).

Commands never wait for a round; what they ask is answered in the step that brings them, with a
channel write or with a verdict in the decision log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.core.fold.operators import OPERATORS, obey
from controller.core.inputs import RawRecord
from controller.core.rounds.log import answer
from controller.core.state.memory import Request
from controller.core.state.tables import FREE, INIT
from controller.core.work import Work
from controller.strategies.verdicts import Reason, Verdict
from controller.wire.commands import Assign, Command, Refused, Tick, decode_command


def fold_command(work: Work, record: RawRecord) -> None:
    """One record of the command topic; raises `WireError` for what is unreadable."""
    command = decode_command(record.value, work.settings.limits)
    if type(command) is not Assign:
        work.desk = None
    HANDLERS[type(command)](work, command, record.ingest_ms)


def _tick(work: Work, command: Tick, now_ms: int) -> None:
    """Moves the clock, which `step` has done already; see there what else."""
    work.is_tick = True


def _assign(work: Work, command: Assign, now_ms: int) -> None:
    memory = work.state.memory
    slot = work.bundle(command.bundle)
    if int(work.state.bundles["state"][slot]) not in (INIT, FREE):
        return  # owned or on its way: the asker learns that from the channel
    move = memory.moves.get(command.bundle)
    if move is not None and move.kind != "tombstone":
        return  # answered already, the record is not back yet
    if len(memory.requests) >= work.settings.log.requests_max:
        verdict = Verdict(command.bundle, Reason.ROUND_LIMIT, flips_if="fewer requests wait")
        answer(work, now_ms, (), (verdict,))
        return
    request = Request(asked_ms=now_ms, who=command.requestedBy, topics=command.topics)
    memory.requests.setdefault(command.bundle, request)
    work.is_answer_due |= move is None  # nothing is written while a tombstone is on its way


def _refused(work: Work, command: Refused, now_ms: int) -> None:
    memory = work.state.memory
    move = memory.moves.get(command.bundle)
    if move is None or move.decision_id != command.decisionId or move.seen_ms:
        return
    del memory.moves[command.bundle]
    memory.count("sink_refusals")
    slot = work.state.bundles.slots.get(command.bundle)
    if move.kind == "tombstone" or slot is None:
        return
    if int(work.state.bundles["state"][slot]) in (INIT, FREE):
        # Answered at the next upkeep, not at once: what is refused now would be refused again.
        memory.requests.setdefault(command.bundle, Request(asked_ms=now_ms, who="sink"))


HANDLERS: dict[type[Command], Callable[[Work, Any, int], None]] = {
    Tick: _tick,
    Assign: _assign,
    Refused: _refused,
    **dict.fromkeys(OPERATORS, obey),
}
