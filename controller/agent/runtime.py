"""The agent's loop: reads the channel, feeds the pure core, carries out its actions.

Rules:

1. One thread owns the core's state and the transport. Releases run in a small pool, because a
   close may take long; their ends come back as events. Other threads may only ask.
2. The lease runs on a clock that also counts while the machine sleeps. A watchdog thread fences
   the broker when the deadline passes while the loop is stuck in a read, a write or the broker.
3. Transport errors never end the loop: they are counted and tried again with a bounded back-off.
4. `stop` makes the agent leave: it tells the controller and goes on until its bundles are gone or
   `shutdown_wait_ms` has passed. Only when the broker serves nothing does it say that it is gone.

Called by `bundlectl agent` and by anybody who brings an own broker.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass

import msgspec
import structlog

from controller.agent import events as ev
from controller.agent.backoff import Backoff
from controller.agent.clocks import lease_clock_ms, wall_clock_ms
from controller.agent.core import handle
from controller.agent.hands import Hands, Pool
from controller.agent.lookups import Lookups
from controller.agent.outbox import Outbox
from controller.agent.port import Broker
from controller.agent.reader import ChannelReader
from controller.agent.settings import RuntimeSettings
from controller.agent.signs import SignsOfLife
from controller.agent.state import (
    AgentSettings,
    AgentState,
    deadline_ms,
    may_serve,
    new_state,
    serving,
)
from controller.agent.watchdog import LeaseWatchdog
from controller.channel.lookup import Answer
from controller.transport.errors import TransportError
from controller.transport.port import OutRecord, Transport
from controller.wire.channel import ServiceUnitStateData, encode_channel
from controller.wire.commands import Assign, encode_command

__all__ = ["AgentRuntime", "RuntimeCounts", "RuntimeSettings"]

_log = structlog.get_logger("controller.agent")

LAST_WORD_TRIES = 3
"""Appends of the last heartbeat: without it the bundles wait for the take-over time, no more."""


@dataclass(slots=True)
class RuntimeCounts:
    """Totals since the start."""

    polls: int = 0
    records: int = 0
    transport_errors: int = 0
    reports: int = 0
    report_errors: int = 0
    reports_spared: int = 0  # a heartbeat was sent instead, because too little had changed
    refused: int = 0  # channel records for which the outbox had no room


class AgentRuntime:
    """Runs one broker's agent on one transport; see the module text.

    Args:
        cluster: name of the cluster, the first part of report keys.
        broker: broker id, as it stands in channel records.
        port: the broker itself.
        transport: used by the loop's thread only.
        agent: times of the protocol.
        settings: times and bounds of the loop.
        clock: monotonic ms; `wall`: ms since 1970, for timestamps and the first sequence number.
        pool: runs the releases; None = threads.
    """

    def __init__(
        self,
        cluster: str,
        broker: str,
        port: Broker,
        transport: Transport,
        agent: AgentSettings,
        settings: RuntimeSettings,
        *,
        clock: Callable[[], int] = lease_clock_ms,
        wall: Callable[[], int] = wall_clock_ms,
        pool: Pool | None = None,
    ) -> None:
        self.counts = RuntimeCounts()
        self.state: AgentState = new_state(cluster, broker, first_sequence=wall())
        self._port = port
        self._transport = transport
        self._agent = agent
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._key = f"{cluster}/{broker}"
        self._log = _log.bind(cluster=cluster, broker=broker)
        self._signs = SignsOfLife(cluster, broker, port, settings, clock, wall)
        self._reader = ChannelReader(transport, settings.channel_topic, settings.read_records_max)
        self._outbox = Outbox(settings.outbox_records_max)
        self._done: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self._lookups = Lookups(lambda: self.state, lambda: self._done.put(ev.Timer()))
        self._threads: ThreadPoolExecutor | None = None
        if pool is None:
            pool = self._threads = ThreadPoolExecutor(settings.release_threads, "release")
        self._watchdog = LeaseWatchdog(port.fence, clock)
        self._hands = Hands(port, self._done, pool, self._watchdog)
        least_ms, greatest_ms = settings.backoff_min_ms, settings.backoff_max_ms
        self._reads = Backoff(least_ms, greatest_ms, clock())
        self._writes = Backoff(least_ms, greatest_ms, clock())

    # ------------------------------------------------------------------ for other threads

    @property
    def may_serve(self) -> bool:
        """True while the broker may serve the bundles it has acquired.

        Cheap, so a broker can ask before it acknowledges what a client wrote; that closes the
        gap between the deadline and the fence that the watchdog calls just after it.
        """
        return not self._hands.must_fence and may_serve(self.state, self._clock(), self._agent)

    @property
    def deadline_ms(self) -> int | None:
        """The moment of the clock up to which serving is allowed now; None while it is not."""
        return self._watchdog.deadline_ms

    def lookup(self, bundle: str) -> Answer:
        """Who owns a bundle, by what was read so far; see `Lookups.lookup`."""
        return self._lookups.lookup(bundle)

    def owner_of(self, bundle: str, timeout_s: float = 30.0) -> str:
        """The owner of a bundle, which is assigned if it has none; see `Lookups.owner_of`."""
        return self._lookups.owner_of(bundle, timeout_s)

    def leave(self) -> None:
        """Tells the controller that this broker wants to be rid of its bundles."""
        self._done.put(ev.Leave())

    def check_lease(self) -> bool:
        """What the watchdog's thread does all the time; for those who bring no threads."""
        return self._watchdog.check()

    # -------------------------------------------------------------------------- the loop

    def run(self, stop: threading.Event, hurry: threading.Event | None = None) -> None:
        """Loops until `stop` is set, then leaves; returns when nothing is served.

        `hurry` ends the waiting for the controller, at any time.
        """
        self._watchdog.start()
        self._log.info("agent started")
        try:
            while not stop.is_set():
                self.turn()
                self._pause()
            self._leave(hurry or threading.Event())
        finally:
            self.close()

    def turn(self) -> None:
        """One pass: completed operations, time, one poll if due, then the outbox."""
        if self._hands.must_fence and not self._hands.fence():
            self._reads.failed(self._clock())  # nothing else is done before it serves nothing
            return
        if self._watchdog.take_fired():
            self._feed(ev.LeaseLost())
        while not self._done.empty():
            self._feed(self._done.get())
        self._feed(ev.Timer())
        if self._reads.is_due(self._clock()):
            self._poll()
        for bundle in self._lookups.take_unowned():
            self._ask(bundle)
        if self._writes.is_due(self._clock()):
            self._flush()

    @property
    def has_left(self) -> bool:
        """True when a leaving agent has nothing more to do."""
        is_leaving = self.state.status == "leaving"
        return is_leaving and not self.state.phases and self._outbox.is_empty

    def close(self) -> None:
        """Stops serving, says so, and gives up the threads; the transport stays open."""
        try:
            self._port.close()  # may take long: the lease still holds meanwhile
        finally:
            self._watchdog.stop()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
        self._feed(ev.Closed())
        self._say_last_word()
        core = asdict(self.state.counts)
        del core["reasons"], core["accepted"]
        self._log.info("agent stopped", **asdict(self.counts), **core)

    def _say_last_word(self) -> None:
        last = self._outbox.sign
        for _ in range(LAST_WORD_TRIES):
            self._outbox.sign = last
            if self._flush():
                return

    def _leave(self, hurry: threading.Event) -> None:
        """Goes on until the bundles are gone, but not for ever."""
        wait_ms = self._settings.shutdown_wait_ms
        if wait_ms == 0 or hurry.is_set():
            return
        self._log.info("agent leaves", bundles=len(serving(self.state)), wait_ms=wait_ms)
        end_ms = self._clock() + wait_ms
        self.leave()
        while not (self.has_left or hurry.is_set() or self._clock() >= end_ms):
            self.turn()
            self._pause()

    def _pause(self) -> None:
        """Waits for the next poll, or for the end of an operation."""
        rest_ms = min(self._reads.due_ms - self._clock(), self._settings.poll_interval_ms)
        if rest_ms > 0:
            with suppress(queue.Empty):
                self._feed(self._done.get(timeout=rest_ms / 1_000))

    def _poll(self) -> None:
        started_ms = self._clock()
        try:
            records, is_at_end = self._reader.read()
        except TransportError as error:
            self._failed(error, "channel cannot be read", self._reads)
            return
        self.counts.polls += 1
        self.counts.records += len(records)
        interval_ms = self._settings.poll_interval_ms if is_at_end else 0
        self._reads.succeeded(started_ms + interval_ms)
        self._feed(ev.Polled(records, started_ms, is_at_end))

    def _failed(self, error: TransportError, what: str, backoff: Backoff) -> None:
        self.counts.transport_errors += 1
        pause_ms = backoff.failed(self._clock())
        self._log.warning(what, error=str(error), pause_ms=pause_ms)
        self._feed(ev.TransportFailed())

    def _flush(self) -> bool:
        """Appends what waits; True if nothing waits any more."""
        waiting, has_sign = self._outbox.take()
        if not waiting:
            return True
        started_ms = self._clock()
        try:
            self._transport.append(waiting)
        except TransportError as error:
            self._failed(error, "records cannot be appended", self._writes)
            return False
        self._writes.succeeded(self._clock())
        self._outbox.acknowledged()
        if has_sign:
            self._signs.acknowledged()
            self._feed(ev.Heard(started_ms))
        return self._outbox.is_empty

    # ------------------------------------------------------------------ the core's actions

    def _feed(self, event: ev.Event) -> None:
        """The deadline is watched before anything is served under it, and until it is fenced."""
        before = self.state
        self.state, actions = handle(before, event, self._clock(), self._agent)
        if not self.state.is_fenced:
            self._watchdog.watch(deadline_ms(self.state, self._agent))
        for action in actions:
            self._execute(action)
        if self.state.is_fenced and not self._hands.must_fence:
            self._watchdog.watch(None)
        if self.state.table is not before.table or self.state.is_caught_up != before.is_caught_up:
            self._lookups.news()

    def _execute(self, action: ev.Action) -> None:
        hands = self._hands
        match action:
            case ev.Publish(key, record):
                self._publish(key, record)
            case ev.Acquire(bundle):
                hands.acquire(bundle)
            case ev.Split(bundle, children):
                hands.split(bundle, children)
            case ev.Release(bundle, destination):
                hands.release(bundle, destination)
            case ev.Drop(bundle):
                hands.drop(bundle)
            case ev.Redirect(bundle, owner):
                hands.redirect(bundle, owner)
            case ev.Fence():
                self._outbox.fence()
                hands.fence()
                self._log.warning("lease ran out, nothing is served")
            case ev.Unfence():
                hands.unfence()
                self._log.info("channel is read again, serving resumes")
            case ev.SendReport():
                self._report(action)
            case ev.SendHeartbeat():
                self._queue_sign(self._signs.heartbeat(action))

    def _publish(self, key: str, record: ServiceUnitStateData) -> None:
        value = encode_channel(msgspec.structs.replace(record, timestamp=self._wall()))
        if not self._outbox.put_channel(OutRecord(self._settings.channel_topic, key, value)):
            self.counts.refused += 1

    def _ask(self, bundle: str) -> None:
        value = encode_command(Assign(bundle=bundle, requestedBy=self.state.broker))
        self._outbox.put_command(OutRecord(self._settings.commands_topic, self._key, value))

    def _report(self, sign: ev.SendReport) -> None:
        try:
            value = self._signs.report(sign)
            self.counts.reports += value is not None
            self.counts.reports_spared += value is None
        except Exception as error:  # the port's own code: anything may come
            self.counts.report_errors += 1
            self._log.warning("broker gave no load report", error=repr(error))
            value = None
        self._queue_sign(self._signs.heartbeat(sign) if value is None else value)

    def _queue_sign(self, value: bytes) -> None:
        self._outbox.sign = OutRecord(self._settings.reports_topic, self._key, value)
