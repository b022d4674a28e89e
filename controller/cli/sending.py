"""Sends one command through the log, and waits for the controller's answer in the decision log.

The answer to a command repeats its id; what the sink then did not publish comes back on the
command topic, and what could not be read lies in the dead letters. Called by
`controller.cli.send_commands`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.transport.port import LogRecord, OutRecord, Transport
from controller.wire.commands import Command, Refused, encode_command
from controller.wire.decisions import AnswerRecord, DecisionEntry, RoundRecord
from controller.wire.rejects import Reject

POLL_S = 0.1
READ_MAX = 500  # records per read

ACCEPTED, REFUSED, UNPUBLISHED, NO_ANSWER, SENT = (
    "accepted",
    "refused",
    "unpublished",
    "no_answer",
    "sent",
)
EXIT_STATUS = {ACCEPTED: 0, SENT: 0, REFUSED: 1, UNPUBLISHED: 1, NO_ANSWER: 3}

_lines: msgspec.json.Decoder[RoundRecord | AnswerRecord] = msgspec.json.Decoder(
    RoundRecord | AnswerRecord
)
_commands = msgspec.json.Decoder(Refused)
_letters = msgspec.json.Decoder(Reject)


@dataclass(frozen=True, slots=True)
class Places:
    """Topics that a command and its answer travel through."""

    commands: str
    decisions: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a command."""

    outcome: str
    decisions: tuple[DecisionEntry, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Reader:
    """Reads what is new on a topic, from its end at the time of making on."""

    log: Transport
    topic: str
    offsets: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.offsets = self.log.end_offsets(self.topic)

    def new(self) -> Iterator[LogRecord]:
        """New records, partition by partition."""
        for partition in self.offsets:
            while True:
                found = self.log.read(self.topic, partition, self.offsets[partition], READ_MAX)
                yield from found
                if not found:
                    break
                self.offsets[partition] = found[-1].offset + 1


def send(log: Transport, places: Places, cluster: str, command: Command, wait_s: float) -> Answer:
    """Appends the command; waits for its answer for so long, not at all with 0."""
    decisions, letters = Reader(log, places.decisions), Reader(log, places.dead_letters)
    commands = Reader(log, places.commands)
    record = OutRecord(places.commands, f"{cluster}/{command.who}", encode_command(command))
    [place] = log.append([record])
    if wait_s <= 0:
        return Answer(SENT)
    deadline = time.monotonic() + wait_s
    while True:
        # Asked in this order: the sink appends an answer and its refusals at once.
        answer = _answer_in(decisions.new(), command.id)
        if answer is not None:
            return _published(answer, commands.new())
        problem = _letter_in(letters.new(), places.commands, place)
        if problem is not None:
            return Answer(REFUSED, problems=(problem,))
        if time.monotonic() > deadline:
            return Answer(NO_ANSWER)
        time.sleep(POLL_S)


def _answer_in(records: Iterable[LogRecord], command_id: str | None) -> Answer | None:
    for record in records:
        line = _decoded(_lines, record)
        if not isinstance(line, AnswerRecord) or line.command is None:
            continue
        if line.command.id == command_id:
            problems = [f"{e.inputs.get('problem', e.reason)}" for e in line.verdicts.top]
            outcome = ACCEPTED if line.command.isAccepted else REFUSED
            return Answer(outcome, tuple(line.plan.decisions), tuple(problems))
    return None


def _published(answer: Answer, commands: Iterable[LogRecord]) -> Answer:
    """The answer, unless the sink says that it did not publish what was decided."""
    wanted = {decision.decisionId for decision in answer.decisions}
    for record in commands:
        refused = _decoded(_commands, record)
        if refused is not None and refused.decisionId in wanted:
            return Answer(UNPUBLISHED, answer.decisions, (refused.reason,))
    return answer


def _letter_in(records: Iterable[LogRecord], topic: str, place: tuple[int, int]) -> str | None:
    for record in records:
        letter = _decoded(_letters, record)
        if letter is not None and (letter.topic, letter.partition, letter.offset) == (
            topic,
            *place,
        ):
            return f"the controller cannot read it ({letter.reason}: {letter.detail})"
    return None


def _decoded(decoder: msgspec.json.Decoder[Any], record: LogRecord) -> Any:
    """The content, or None for what is something else."""
    try:
        return decoder.decode(record.value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
