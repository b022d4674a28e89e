"""Writes decision-log records: bytes that are equal whenever the decisions are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.core.work import Work
from controller.strategies.verdicts import Verdict, VerdictTally
from controller.wire.decisions import (
    AnswerRecord,
    CommandEcho,
    DecisionEntry,
    RoundRecord,
    RoundStatistics,
    VerdictEntry,
    Verdicts,
    plan_of,
)

_encoder = msgspec.json.Encoder(order="sorted")


def answer(
    work: Work,
    now_ms: int,
    decisions: Sequence[DecisionEntry],
    verdicts: Sequence[Verdict],
    command: CommandEcho | None = None,
) -> None:
    """Logs what was decided, or refused, between rounds; `command` is what asked for it."""
    tally = VerdictTally(work.settings.log.verdicts_top)
    tally.extend(tuple(verdicts))
    answer_tally(work, now_ms, decisions, tally, command)


def answer_tally(
    work: Work,
    now_ms: int,
    decisions: Sequence[DecisionEntry],
    tally: VerdictTally,
    command: CommandEcho | None = None,
) -> None:
    """As `answer`, with verdicts that are counted already."""
    record = AnswerRecord(
        cluster=work.cluster,
        round=work.state.memory.round_number,
        clockMs=now_ms,
        command=command,
        plan=plan_of(list(decisions)),
        verdicts=entries(tally),
    )
    work.logged.append(_encoder.encode(record))


def log_round(
    work: Work,
    tick_ms: int,
    mode: str,
    health: str,
    statistics: RoundStatistics,
    decisions: list[DecisionEntry],
    tally: VerdictTally,
) -> None:
    """Logs one round."""
    memory = work.state.memory
    record = RoundRecord(
        cluster=work.cluster,
        round=memory.round_number,
        tickMs=tick_ms,
        clockMs=memory.clock_ms,
        mode=mode,
        health=health,
        strategies={
            "shed": work.settings.shed,
            "place": work.settings.place,
            "split": work.settings.split,
        },
        overrides=dict(memory.overrides),
        inputs=dict(memory.offsets),
        statistics=statistics,
        plan=plan_of(decisions),
        verdicts=entries(tally),
    )
    work.logged.append(_encoder.encode(record))


def entries(tally: VerdictTally) -> Verdicts:
    """Verdicts in the form of the log."""
    return Verdicts(counts=dict(tally.counts), top=[_entry(v) for v in tally.top])


def _entry(verdict: Verdict) -> VerdictEntry:
    return VerdictEntry(
        subject=verdict.subject,
        reason=verdict.reason.label,
        code=verdict.reason.code,
        inputs=dict(verdict.inputs),
        threshold=verdict.threshold,
        hits=verdict.hits,
        flipsIf=verdict.flips_if,
    )
