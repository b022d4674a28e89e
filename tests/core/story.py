"""Stories about one cluster as the core sees it: a command per line, what the core does about it.

Commands (times in seconds, versions follow the record that stands unless given):

    cluster b0 b1           brokers that send a heartbeat every half second
    wait 3                  time passes; ticks happen, writes of the core are read back
    ask BUNDLE              somebody asks for an owner
    b0 writes BUNDLE STATE [src=b0] [dst=b1] [v=3] [force] [children=range,range]
    b0 buries BUNDLE        a tombstone
    b0 says leaving|gone|up its next heartbeats carry this status
    b0 falls silent         no more heartbeats
    operator COMMAND {...}  a command with these members
    show                    the ownership table

The answer shows records of the channel (`>` written by the core, `<` by others), answers to
operators, and verdicts of the reasons below; rounds without any of these are not shown.
"""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec

from controller.channel.table import ChannelTable
from controller.core.fold.ownership import channel_record
from controller.core.inputs import RawRecord
from controller.core.state import new_state
from controller.core.step import step
from controller.core.work import Work
from controller.wire.channel import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    encode_channel,
)
from controller.wire.commands import Assign, Tick, encode_command
from controller.wire.reports import Heartbeat, encode_heartbeat
from tests.world import CLUSTER, SETTINGS, START_MS

STEP_MS = 100
TOLD = ("lost_race", "no_brokers", "safe_mode", "pinned", "draining")


class Story:
    """Interprets the lines of one file."""

    def __init__(self) -> None:
        self.settings = replace(SETTINGS, rounds=replace(SETTINGS.rounds, warmup_ms=500))
        self.now_ms = START_MS
        self.state = new_state(CLUSTER, self.settings)
        self.table = ChannelTable()
        self.offsets: dict[str, int] = {}
        self.status: dict[str, str] = {}
        self.sequence = START_MS
        self.coming: list[tuple[str, bytes | None]] = []
        self.lines: list[str] = []
        self.told: set[str] = set()

    def interpret(self, line: str) -> str:
        words = line.split()
        self.lines = []
        match words:
            case ["cluster", *brokers]:
                self.status = dict.fromkeys(brokers, "up")
                self._pass(3_500)
            case ["wait", seconds]:
                self._pass(round(float(seconds) * 1_000))
            case ["ask", bundle]:
                self._command(Assign(bundle=bundle, requestedBy="client"))
            case [_, "writes", bundle, state, *fields]:
                self._writes(bundle, state, fields)
            case [_, "buries", bundle]:
                self._channel(bundle, None, "<")
            case [broker, "says", status]:
                self.status[broker] = status
                self._heartbeat(broker)
            case [broker, "falls", "silent"]:
                del self.status[broker]
            case ["operator", command, *_]:
                members = line.split(None, 2)[2] if len(words) > 2 else "{}"
                value = json.dumps({"command": command, **json.loads(members)})
                self._append(self.settings.commands_topic, f"{CLUSTER}/x", value.encode())
            case ["show"]:
                self._show()
            case _:
                raise ValueError(f"no such line in a story: {line}")
        return "\n".join(self.lines) or "(nothing)"

    # ------------------------------------------------------------------ what happens

    def _pass(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            coming, self.coming = self.coming, []
            for bundle, value in coming:
                self._channel(bundle, value, ">")
            if self.now_ms % 500 == 0:
                for broker in sorted(self.status):
                    if self.status[broker] != "gone":
                        self._heartbeat(broker)
            if self.now_ms % 500 == self.settings.rounds.settle_ms:
                self._command(Tick())

    def _command(self, command: Assign | Tick) -> None:
        self._append(self.settings.commands_topic, f"{CLUSTER}/x", encode_command(command))

    def _heartbeat(self, broker: str) -> None:
        self.sequence += 1
        beat = Heartbeat(
            cluster=CLUSTER,
            broker=broker,
            sequence=self.sequence,
            timestamp=self.now_ms,
            status=self.status[broker],
        )
        self._append(self.settings.reports_topic, f"{CLUSTER}/{broker}", encode_heartbeat(beat))

    def _writes(self, bundle: str, state: str, fields: list[str]) -> None:
        given = dict(field.split("=", 1) for field in fields if "=" in field)
        old = self.table.records.get(bundle)
        children = given.get("children", "").split(",") if "children" in given else None
        record = ServiceUnitStateData(
            state=ServiceUnitState(state),
            dstBroker=given.get("dst"),
            sourceBroker=given.get("src"),
            splitServiceUnitToDestBroker=dict.fromkeys(children) if children else None,
            force="force" in fields,
            timestamp=self.now_ms,
            versionId=int(given.get("v", 1 if old is None else old.versionId + 1)),
        )
        self._channel(bundle, encode_channel(record), "<")

    def _channel(self, bundle: str, value: bytes | None, arrow: str) -> None:
        outcome = self.table.apply_raw(bundle, value, self.now_ms)
        self._say(f"{arrow} {bundle} {_text(decode_channel(value))}{_lost(outcome.reason)}")
        self._append(self.settings.channel_topic, bundle, value)

    def _append(self, topic: str, key: str, value: bytes | None) -> None:
        self.offsets[topic] = self.offsets.get(topic, -1) + 1
        record = RawRecord(self.now_ms, topic, 0, self.offsets[topic], key, value)
        result = step(self.state, [record], self.now_ms, self.settings)
        self.state = result.state
        self.coming += [(write.key, write.value) for write in result.records]
        for line in result.rounds:
            self._tell(msgspec.json.decode(line))

    # ------------------------------------------------------------------ what is shown

    def _say(self, text: str) -> None:
        self.lines.append(f"{(self.now_ms - START_MS) / 1000:5.1f} {text}")

    def _tell(self, record: dict) -> None:
        command = record.get("command")
        if command is not None:
            answer = "accepted" if command["isAccepted"] else "refused"
            subject = f" {command['subject']}" if "subject" in command else ""
            self._say(f"  {command['command']}{subject}: {answer}")
        for d in record["plan"]["decisions"]:
            self._say(f"  decides {d['kind']} {d['bundle']} ({d['reason']}: {d.get('detail', '')})")
        news = set()
        for v in record["verdicts"]["top"]:
            if v["reason"] == "invalid_command":
                self._say(f"  {v['inputs']['problem']}")
            elif v["reason"] in TOLD and v["subject"] != "cluster":
                inputs = ", ".join(f"{k} {x}" for k, x in sorted(v.get("inputs", {}).items()))
                news.add(f"  {v['reason']} {v['subject']}" + (f" ({inputs})" if inputs else ""))
        for text in sorted(news - self.told):  # what is told round after round is shown once
            self._say(text)
        self.told = news if record["type"] == "round" else self.told | news

    def _show(self) -> None:
        memory, work = self.state.memory, Work(self.state, self.settings, self.settings)
        for name, slot in sorted(self.state.bundles.slots.items()):
            marks = ["tainted"] if name in memory.tainted else []
            marks += [f"pinned to {memory.pins[name].broker}"] if name in memory.pins else []
            record = channel_record(work, slot)
            self.lines.append(f"{name} {_text(record)} {', '.join(marks)}".rstrip())


def _text(record: ServiceUnitStateData | None) -> str:
    if record is None:
        return "(none)"
    src = f"{record.sourceBroker} " if record.sourceBroker else ""
    brokers = f"{src}-> {record.dstBroker}" if record.dstBroker else src.strip()
    children = " ".join(sorted(record.splitServiceUnitToDestBroker or {}))
    parts = [f"{record.state.value}({brokers})", f"v{record.versionId}", children]
    return " ".join([*filter(None, parts), *(["forced"] if record.force else [])])


def _lost(reason: str | None) -> str:
    return "" if reason is None else f"   loses: {reason}"
