"""The observer: watches channel and own logs, and says what really happened.

Rules: it knows nothing of the controller but its decision log, which it shows and does not
believe. Lines of the own logs are held back for `settle_ms` and then taken in order of time,
because the files of several processes are not read at the same instant.

Definitions (also of the summary):

- imbalance: max over mean of the load ratio of live brokers, each as last logged by itself.
- imbalance_start: the greatest imbalance of the first `start_window_ms` after the start, when
  bundles have been assigned without knowledge of their load and little was moved yet.
- imbalance_end: the median of the last `end_window_ms` of samples.

Called by the demo's loop.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from controller.agent.own_log import OwnLine, wall_ms
from controller.demo.service import Service, in_order
from controller.demo.tail import OwnLogTail
from controller.demo.traffic import ChannelFold, DecisionFold, TopicTail
from controller.transport.port import Transport


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """Windows and limits of the observer."""

    gap_limit_ms: float = 30_000.0  # a bundle unserved for longer is a violation (issue: 30 s)
    settle_ms: float = 500.0  # held back, so that lines of all brokers can be put in order
    start_window_ms: float = 10_000.0
    end_window_ms: float = 10_000.0
    samples_max: int = 20_000  # of imbalance; a demo without end forgets its beginning


@dataclass(slots=True)
class Observer:
    """See the module text."""

    transport: Transport
    own_logs: Path
    channel_topic: str
    decisions_topic: str
    settings: ObserverSettings = field(default_factory=ObserverSettings)
    clock: Callable[[], float] = wall_ms
    channel: ChannelFold = field(default_factory=ChannelFold)
    decisions: DecisionFold = field(default_factory=DecisionFold)
    service: Service = field(init=False)
    samples: deque[tuple[float, float]] = field(init=False)
    killed: list[str] = field(default_factory=list)
    started_ms: float | None = None
    imbalance_start: float | None = None
    _tail: OwnLogTail = field(init=False)
    _held: list[OwnLine] = field(default_factory=list)
    _deaths: list[tuple[float, str]] = field(default_factory=list)
    _channel_tail: TopicTail = field(init=False)
    _decisions_tail: TopicTail = field(init=False)

    def __post_init__(self) -> None:
        self.service = Service(self.settings.gap_limit_ms)
        self.samples = deque(maxlen=self.settings.samples_max)
        self._tail = OwnLogTail(self.own_logs)
        self._channel_tail = TopicTail(self.transport, self.channel_topic)
        self._decisions_tail = TopicTail(self.transport, self.decisions_topic)

    def start(self) -> None:
        """The run begins now: start-up is over, samples count from here."""
        self.started_ms = self.clock()

    def died(self, broker: str, ms: float) -> None:
        """The broker's process was found dead at `ms`, or was killed then."""
        self._deaths.append((ms, broker))
        self.killed.append(broker)

    def update(self, *, is_last: bool = False) -> None:
        """Reads what is new; `is_last` also takes what is still held back."""
        self.channel.feed(self._channel_tail.new_records())
        self.decisions.feed(self._decisions_tail.new_records())
        now_ms = self.clock()
        self._held += self._tail.new_lines()
        until_ms = now_ms + 1.0 if is_last else now_ms - self.settings.settle_ms
        self._apply(until_ms)
        self.service.check_gaps(now_ms)
        if not is_last:
            self._sample(now_ms)

    def imbalance_end(self) -> float | None:
        """Median of the imbalance over the last `end_window_ms`; None without samples."""
        if not self.samples:
            return None
        since_ms = self.samples[-1][0] - self.settings.end_window_ms
        return statistics.median(value for at, value in self.samples if at >= since_ms)

    def takeover_s(self) -> float | None:
        """Seconds from the kill to the last orphaned bundle being served; None = never (yet)."""
        times = [self.service.takeover_s(broker) for broker in self.killed]
        known = [seconds for seconds in times if seconds is not None]
        return max(known) if known and len(known) == len(times) else None

    def _apply(self, until_ms: float) -> None:
        due = in_order([line for line in self._held if line.ms <= until_ms])
        self._held = [line for line in self._held if line.ms > until_ms]
        deaths = sorted(death for death in self._deaths if death[0] <= until_ms)
        self._deaths = [death for death in self._deaths if death[0] > until_ms]
        for line in due:
            while deaths and deaths[0][0] < line.ms:
                ms, broker = deaths.pop(0)
                self.service.died(broker, ms)
            self.service.feed(line)
        for ms, broker in deaths:
            self.service.died(broker, ms)

    def _sample(self, now_ms: float) -> None:
        value = self.service.imbalance()
        if self.started_ms is None or value is None:
            return
        self.samples.append((now_ms, value))
        if now_ms - self.started_ms <= self.settings.start_window_ms:
            self.imbalance_start = max(value, self.imbalance_start or 0.0)
