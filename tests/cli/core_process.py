"""The production core over a log, driven by a thread: answers commands as the job does."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from controller.core.inputs import RawRecord
from controller.core.settings import Settings
from controller.core.state import new_state
from controller.core.step import step
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.commands import Refused, encode_command
from controller.wire.rejects import encode_reject

TOPICS = ("load-reports", "controller-commands", "bundle-state-east")


class Controller:
    """A context manager; `is_observing` refuses every channel write, as the sink would."""

    def __init__(self, path: Path, settings: Settings, is_observing: bool = False) -> None:
        self.path, self.settings, self.is_observing = path, settings, is_observing
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Controller:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join(10)

    def _run(self) -> None:
        log, state, seen = EmbeddedLog(self.path), new_state("east", self.settings), 0
        while not self.done.wait(0.02):
            end = log.end_sequence(TOPICS)
            columns = log.read_columns(seen, end, TOPICS, 10_000)
            seen = end
            _, topics, partitions, offsets, keys, values, times = columns
            records = list(map(RawRecord, times, topics, partitions, offsets, keys, values))
            result = step(state, records, 0, self.settings)
            state = result.state
            out = [OutRecord("decision-log", "east", line) for line in result.rounds]
            out += [OutRecord("dead-letters", r.key, encode_reject(r)) for r in result.rejects]
            out += [self._written(w.key, w.value, w.decision_id) for w in result.records]
            log.append(out)
        log.close()

    def _written(self, key: str, value: bytes | None, decision_id: str) -> OutRecord:
        if not self.is_observing:
            return OutRecord("bundle-state-east", key, value)
        version = msgspec.json.decode(value or b"")["versionId"]
        refused = Refused(
            bundle=key, versionId=version, decisionId=decision_id, reason="observing", who="sink"
        )
        return OutRecord("controller-commands", "east/_sink", encode_command(refused))
