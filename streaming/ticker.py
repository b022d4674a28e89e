"""Lets the log's time pass when every broker is silent: appends `tick` commands.

For each cluster one tick is due whenever the clock passes a multiple of its upkeep interval by its
settle time; those due together go in one append. The core does the rest: a tick is a record like
any other, so replay and catch-up see exactly the time that the log saw. Started by
`streaming.job`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from controller.core.settings import RoundSettings
from controller.transport.errors import TransportError
from controller.transport.port import OutRecord, Transport
from controller.wire.commands import Tick, encode_command
from streaming.halt import Halt

log = structlog.get_logger("streaming.ticker")

FAILURES_MAX = 5  # appends that fail in a row before the job ends: without time nothing is decided
RETRY_S = 1.0


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as the log assigns them."""
    return time.time_ns() // 1_000_000


class Ticker:
    """One thread; `failures` counts appends that failed since the start.

    `may_tick` False leaves a tick out: see `streaming.pace`.
    """

    def __init__(
        self,
        open_transport: Callable[[], Transport],
        rounds: Mapping[str, RoundSettings],
        commands_topic: str,
        halt: Halt,
        clock: Callable[[], int] = wall_clock_ms,
        may_tick: Callable[[], bool] = lambda: True,
    ) -> None:
        self._open = open_transport
        self._rounds = dict(rounds)
        self._topic = commands_topic
        self._halt = halt
        self._clock = clock
        self._may_tick = may_tick
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)
        self.failures = 0

    def start(self) -> None:
        """Begins to append ticks."""
        self._thread.start()

    def stop(self) -> None:
        """Stops and waits for the thread."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        """The thread: whatever ends it before `stop` ends the job, for without time nothing is."""
        try:
            self._tick_until_done()
        except Exception as error:
            log.exception("ticker died")
            self._halt.fail(f"ticks cannot be appended to {self._topic}: {error}")

    def _tick_until_done(self) -> None:
        transport = self._open()
        due = {name: next_due_ms(rounds, self._clock()) for name, rounds in self._rounds.items()}
        failed = 0
        try:
            while not self._done.wait(self._seconds_to(min(due.values()), failed)):
                now_ms = self._clock()
                clusters = [name for name, at in sorted(due.items()) if at <= now_ms]
                if not clusters:
                    continue
                if not self._may_tick():  # asked at each due tick; those left out are not made up
                    due.update({name: next_due_ms(self._rounds[name], now_ms) for name in clusters})
                    continue
                try:
                    transport.append(tick_records(clusters, self._topic))
                except TransportError as error:
                    failed += 1
                    self._count(failed, error)
                    continue
                failed = 0
                due.update({name: next_due_ms(self._rounds[name], now_ms) for name in clusters})
        finally:
            transport.close()

    def _seconds_to(self, due_ms: int, failed: int) -> float:
        return RETRY_S if failed else max(0.0, (due_ms - self._clock()) / 1_000)

    def _count(self, failed: int, error: TransportError) -> None:
        self.failures += 1
        log.warning("tick not appended", error=str(error), in_a_row=failed)
        if failed >= FAILURES_MAX:
            self._halt.fail(f"ticks cannot be appended to {self._topic}: {error}")
            self._done.set()


def next_due_ms(rounds: RoundSettings, now_ms: int) -> int:
    """The first moment after `now_ms` that is a tick plus the settle time."""
    every = rounds.upkeep_interval_ms
    return ((now_ms - rounds.settle_ms) // every + 1) * every + rounds.settle_ms


def tick_records(clusters: list[str], topic: str) -> list[OutRecord]:
    """One tick per cluster."""
    value = encode_command(Tick(who="ticker"))
    return [OutRecord(topic, f"{cluster}/_tick", value) for cluster in clusters]
