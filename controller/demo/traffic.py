"""What the observer learns from topics: the fold of the channel, and the decision log.

The channel is folded by the conflict rule, so that only records that won are counted. The
decision log is read leniently: it explains, it proves nothing. Called by the observer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.channel.table import ChannelTable
from controller.transport.port import LogRecord, Transport
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData

READ_RECORDS_MAX = 2_000
"""Per read; a backlog is read in several turns of the loop."""

DECISIONS_KEPT = 40
"""For the view, which shows fewer."""


class TopicTail:
    """Reads a topic from its beginning, all partitions, as it grows."""

    def __init__(self, transport: Transport, topic: str) -> None:
        self._transport = transport
        self._topic = topic
        self._offsets: dict[int, int] = {}

    def new_records(self) -> list[LogRecord]:
        """Records since the last call, at most `READ_RECORDS_MAX` per partition."""
        if not self._offsets:
            self._offsets = dict.fromkeys(self._transport.end_offsets(self._topic), 0)
        found: list[LogRecord] = []
        for partition, offset in sorted(self._offsets.items()):
            batch = self._transport.read(self._topic, partition, offset, READ_RECORDS_MAX)
            if batch:
                self._offsets[partition] = batch[-1].offset + 1
                found += batch
        return found


@dataclass(slots=True)
class ChannelFold:
    """Service units of one channel, and how many records of each kind have won."""

    folded: ChannelTable = field(default_factory=ChannelTable)
    assignments: int = 0
    transfers: int = 0
    unloads: int = 0
    splits: int = 0
    overrides: int = 0
    seen: set[str] = field(default_factory=set)

    def feed(self, records: Iterable[LogRecord]) -> None:
        """Applies records in log order."""
        for record in records:
            outcome = self.folded.apply_raw(record.key, record.value, record.ingest_ms)
            if outcome.is_accepted and outcome.new is not None:
                self.seen.add(record.key or "")
                self._count(outcome.new)

    @property
    def table(self) -> Mapping[str, ServiceUnitStateData]:
        """The record that stands for each bundle."""
        return self.folded.records

    @property
    def losing(self) -> int:
        """Records that changed nothing: they lost, or could not be read."""
        return self.folded.losing.total() + self.folded.unreadable.total()

    def unowned(self, initial: Iterable[str]) -> list[str]:
        """Bundles that a client's lookup would find unowned: never seen so far, or Free."""
        free = {name for name, unit in self.table.items() if unit.state == ServiceUnitState.Free}
        return sorted(free | (set(initial) - self.seen))

    def in_flight(self) -> list[tuple[str, ServiceUnitStateData]]:
        """Units that are Assigning, Releasing or Splitting, by name."""
        return [(name, unit) for name, unit, _ in self.folded.in_flight(0)]

    def owned(self) -> dict[str, str]:
        """Owner of every bundle that is Owned."""
        return {
            name: unit.dstBroker or ""
            for name, unit in self.table.items()
            if unit.state == ServiceUnitState.Owned
        }

    def _count(self, new: ServiceUnitStateData) -> None:
        if new.force:
            self.overrides += 1
        elif new.state == ServiceUnitState.Releasing:
            if new.dstBroker:
                self.transfers += 1
            else:
                self.unloads += 1
        elif new.state == ServiceUnitState.Assigning and not new.sourceBroker:
            self.assignments += 1
        elif new.state == ServiceUnitState.Splitting:
            self.splits += 1


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """One decision as the decision log tells it."""

    round: int
    kind: str
    bundle: str
    source: str
    destination: str
    reason: str
    detail: str


@dataclass(slots=True)
class DecisionFold:
    """Rounds and decisions of the decision log."""

    rounds: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    last: deque[SeenDecision] = field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT))

    def feed(self, records: Iterable[LogRecord]) -> None:
        """Applies records; what cannot be read is left out."""
        for record in records:
            try:
                entry = msgspec.json.decode(record.value or b"null")
            except msgspec.MsgspecError:
                continue
            if isinstance(entry, dict):
                self._entry(entry)

    def _entry(self, entry: dict[str, Any]) -> None:
        if entry.get("type") == "round":
            self.rounds += 1
            counts = (entry.get("verdicts") or {}).get("counts")
            self.refusals = counts if isinstance(counts, dict) else {}
        decisions = entry.get("decisions") or (entry.get("plan") or {}).get("decisions") or []
        for decision in decisions:
            if isinstance(decision, dict):
                self.last.append(_seen(entry, decision))


def _seen(entry: dict[str, Any], decision: dict[str, Any]) -> SeenDecision:
    def text(name: str) -> str:
        return str(decision.get(name) or "")

    return SeenDecision(
        round=int(entry.get("round") or 0),
        kind=text("kind"),
        bundle=text("bundle"),
        source=text("from"),
        destination=text("to"),
        reason=text("reason"),
        detail=text("detail"),
    )
