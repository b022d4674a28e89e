"""One broker with its agent as a simulated process: the production runtime, turn by turn.

A turn is one event; a turn whose read is slow began earlier, sees the log as it was then, and
ends now. Closes end in events of their own. A killed process serves nothing from that moment on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from controller.agent.runtime import AgentRuntime, RuntimeSettings
from controller.agent.state import AgentSettings
from controller.sim.boundaries import Boundaries
from controller.sim.chaos.broker import BrokerFaults, ChaosBroker
from controller.sim.chaos.kernel import Process
from controller.sim.chaos.log import START_MS, Link, SimLog
from controller.transport.port import LogRecord, OutRecord, Transport

POLL_MS = 50  # how often a process that leaves looks whether it is done


@dataclass(slots=True)
class AgentFaults:
    """What one agent's process suffers at the moment."""

    slow_turn: float = 0.0  # share of turns that hang in the read
    slow_turn_max_ms: int = 0
    close_max_ms: int = 100  # a graceful close takes up to so long


class _SlowLink(Link):
    """A connection whose next read began some time ago."""

    def __init__(self, log: SimLog, name: str) -> None:
        super().__init__(log, name)
        self.seen_sequence: int | None = None
        self.began_ms: int | None = None

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """As `Link.read`, of the log as it was when the read began."""
        rows = super().read(topic, partition, offset, limit)
        if self.seen_sequence is not None:
            rows = [row for row in rows if row.sequence <= self.seen_sequence]
            if partition == len(self.log.ends[topic]) - 1:
                self.is_over()
        return rows

    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """As `Link.append`; whatever was slow is over then."""
        self.is_over()
        return super().append(records)

    def is_over(self) -> None:
        """The slow operation has ended."""
        self.seen_sequence = self.began_ms = None


@dataclass(slots=True)
class AgentProcess(Process):
    """See the module text."""

    log: SimLog = field(kw_only=True)
    cluster: str = field(kw_only=True)
    boundaries: Boundaries = field(kw_only=True)
    rate_of: Callable[[str], float] = field(kw_only=True)
    settings: AgentSettings = field(kw_only=True)
    runtime_settings: RuntimeSettings = field(kw_only=True)
    faults: AgentFaults = field(default_factory=AgentFaults)
    broker_faults: BrokerFaults = field(default_factory=BrokerFaults)
    broker: ChaosBroker | None = None
    runtime: AgentRuntime | None = None
    link: _SlowLink | None = None
    is_in_turn: bool = False
    is_watched: bool = False

    def boot(self) -> None:
        """A new runtime that has read nothing."""
        self.is_in_turn = self.is_watched = False
        self.broker = ChaosBroker(
            self.kernel.chance, self.rate_of, self.boundaries, self.broker_faults
        )
        faults = self.link.faults if self.link is not None else None
        self.link = _SlowLink(self.log, self.name)
        if faults is not None:
            self.link.faults = faults
        self.runtime = AgentRuntime(
            self.cluster,
            self.name,
            self.broker,
            cast(Transport, self.link),
            self.settings,
            self.runtime_settings,
            clock=self._local_ms,
            wall=lambda: START_MS + self.kernel.now_ms,
            pool=_Closes(self),
        )
        self._turn_soon()

    def halt(self) -> None:
        """Nothing is served by a process that is dead."""
        self.runtime = self.broker = None

    @property
    def is_leaving(self) -> bool:
        """True while it waits for its bundles to be taken."""
        return self.runtime is not None and self.runtime.state.status == "leaving"

    def leave(self, down_ms: int) -> None:
        """The process was asked to stop, as `AgentRuntime.run` does; it starts again later."""
        if self.runtime is not None and self.runtime.state.status == "up":
            self.kernel.tell(self.name, "was asked to leave")
            self.runtime.leave()
            end_ms = self.kernel.now_ms + self.runtime_settings.shutdown_wait_ms
            self.soon(POLL_MS, lambda: self._leave_if_done(end_ms, down_ms))

    def _leave_if_done(self, end_ms: int, down_ms: int) -> None:
        assert self.runtime is not None
        if not self.runtime.has_left and self.kernel.now_ms < end_ms:
            self.soon(POLL_MS, lambda: self._leave_if_done(end_ms, down_ms))
            return
        self.runtime.close()
        self.kernel.tell(self.name, "has left")
        self.kill()
        self.kernel.later(down_ms, self.start)

    def serves(self) -> frozenset[str]:
        """Bundles that clients can use at this moment."""
        if not self.is_running or self.runtime is None or self.broker is None:
            return frozenset()
        if not self.runtime.may_serve:
            return frozenset()
        return frozenset(self.broker.served)

    def _local_ms(self) -> int:
        """The loop's clock stands while it hangs; that of the watchdog does not."""
        if self.is_in_turn and self.link is not None and self.link.began_ms is not None:
            return self.link.began_ms
        return self.clock_ms()

    def _turn_soon(self) -> None:
        kernel, faults = self.kernel, self.faults
        pace_ms = self.runtime_settings.poll_interval_ms
        delay_ms = kernel.random.randint(pace_ms // 2, pace_ms)
        if kernel.chance(faults.slow_turn) and self.link is not None:
            hangs_ms = kernel.random.randint(1, faults.slow_turn_max_ms)
            self.soon(delay_ms, lambda: self._begin_slow(hangs_ms))
        else:
            self.soon(delay_ms, self._turn)

    def _begin_slow(self, hangs_ms: int) -> None:
        assert self.link is not None
        self.link.began_ms = self.clock_ms()
        self.link.seen_sequence = self.log.sequence
        self.kernel.tell(self.name, f"hangs in a read for {hangs_ms} ms")
        self.soon(hangs_ms, self._turn)
        self._watch()

    def _turn(self) -> None:
        assert self.runtime is not None and self.link is not None
        self.is_in_turn = True
        self.runtime.turn()
        self.is_in_turn = False
        self.link.is_over()
        self._turn_soon()
        self._watch()

    def _watch(self) -> None:
        """The watchdog's thread runs beside the loop, also while that hangs."""
        assert self.runtime is not None
        deadline_ms = self.runtime.deadline_ms
        if deadline_ms is not None and not self.is_watched:
            self.is_watched = True
            self.soon(max(1, deadline_ms - self.clock_ms() + 1), self._check_lease)

    def _check_lease(self) -> None:
        assert self.runtime is not None
        self.is_watched = False
        self.runtime.check_lease()
        self._watch()


@dataclass(slots=True)
class _Closes:
    """Stands for the pool in which the runtime closes bundles."""

    process: AgentProcess

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Has the close end after a while."""
        process = self.process
        process.soon(
            process.kernel.random.randint(0, process.faults.close_max_ms),
            lambda: function(*arguments),
        )
