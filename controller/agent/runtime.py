"""The agent's loop: reads the channel, feeds the pure core, carries out its actions.

Rules:

1. One thread owns the core's state and the transport. Releases run in a small pool, because a
   close may take long; their ends come back as events.
2. The lease runs on a clock that also counts while the machine sleeps. A watchdog thread fences
   the broker when the lease runs out while the loop is stuck in a read or a write.
3. Transport errors never end the loop: they are counted and tried again with a bounded
   back-off. Channel records wait in the outbox meanwhile, in order; reports do not, they age.
4. `stop` ends the loop; the broker then stops serving before the process ends.

Called by `bundlectl agent` and by anybody who brings an own broker.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
import structlog

from controller.agent import events as ev
from controller.agent.backoff import Backoff
from controller.agent.core import handle
from controller.agent.port import Broker
from controller.agent.state import AgentSettings, AgentState, new_state, serving
from controller.agent.watchdog import LeaseWatchdog
from controller.transport.errors import TransportError
from controller.transport.port import OutRecord, Transport
from controller.wire.channel import ServiceUnitStateData, encode_channel
from controller.wire.reports import (
    BundleStats,
    Heartbeat,
    LoadReport,
    encode_heartbeat,
    encode_load_report,
)

_log = structlog.get_logger("controller.agent")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How the loop talks to the transport."""

    channel_topic: str = "bundle-state"
    reports_topic: str = "load-reports"
    poll_interval_ms: int = 100  # pace of reading the channel; half the take-over grace or less
    read_records_max: int = 1_000  # per read, so that a long channel does not block the lease
    release_threads: int = 4  # closes that may run at once
    backoff_min_ms: int = 100  # first pause after a transport error, doubled each time
    backoff_max_ms: int = 2_000  # longest pause; well below the lease
    outbox_records_max: int = 10_000  # channel records waiting for the transport
    topic_hashes_above: int = 500  # reports list topic hashes of bundles with more topics


@dataclass(slots=True)
class RuntimeCounts:
    """Totals since the start."""

    polls: int = 0
    records: int = 0
    transport_errors: int = 0
    reports: int = 0
    report_errors: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Outbox:
    channel: list[OutRecord] = field(default_factory=list)
    reports: list[OutRecord] = field(default_factory=list)


def lease_clock_ms() -> int:
    """Monotonic ms that go on while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def wall_clock_ms() -> int:
    """Wall time, ms since 1970."""
    return time.time_ns() // 1_000_000


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
        self._offsets: dict[int, int] = {}
        self._outbox = _Outbox()
        self._done: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(settings.release_threads, "release")
        self._watchdog = LeaseWatchdog(port.fence, clock, agent.lease_ms)
        least_ms, greatest_ms = settings.backoff_min_ms, settings.backoff_max_ms
        self._reads = Backoff(least_ms, greatest_ms, clock())
        self._writes = Backoff(least_ms, greatest_ms, clock())

    def run(self, stop: threading.Event) -> None:
        """Loops until `stop` is set, then stops serving; returns when nothing is served."""
        self._watchdog.start()
        self._log.info("agent started")
        try:
            while not stop.is_set():
                self.turn()
                self._pause()
        finally:
            try:
                self._port.close()  # may take long: the lease still holds meanwhile
            finally:
                self._watchdog.stop()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._log.info("agent stopped", **msgspec.structs.asdict(_Totals.of(self)))

    def turn(self) -> None:
        """One pass: completed operations, time, one poll if due, then the outbox."""
        if self._watchdog.take_fired():
            self._feed(ev.LeaseLost())
        while not self._done.empty():
            self._feed(self._done.get())
        self._feed(ev.Timer())
        if self._reads.is_due(self._clock()):
            self._poll()
        if self._writes.is_due(self._clock()):
            self._flush()

    def _pause(self) -> None:
        """Waits for the next poll, or for the end of an operation."""
        rest_ms = self._reads.due_ms - self._clock()
        if rest_ms <= 0:
            return
        wait_ms = min(rest_ms, self._settings.poll_interval_ms)
        try:
            event = self._done.get(timeout=wait_ms / 1_000)
        except queue.Empty:
            return
        self._feed(event)

    def _poll(self) -> None:
        started_ms = self._clock()
        try:
            records, is_at_end = self._read()
        except TransportError as error:
            self._failed(error, "channel cannot be read", self._reads)
            return
        self.counts.polls += 1
        self.counts.records += len(records)
        interval_ms = self._settings.poll_interval_ms if is_at_end else 0
        self._reads.succeeded(started_ms + interval_ms)
        self._feed(ev.Timer())  # the core must see a lease that ran out during the read
        self._feed(ev.Polled(tuple(records), started_ms, is_at_end))

    def _read(self) -> tuple[list[ev.ChannelRecord], bool]:
        """New records of all partitions; one key always lies in one partition, so order holds."""
        topic, limit = self._settings.channel_topic, self._settings.read_records_max
        if not self._offsets:
            self._offsets = dict.fromkeys(self._transport.end_offsets(topic), 0)
        found: list[ev.ChannelRecord] = []
        offsets = dict(self._offsets)
        is_at_end = True
        for partition, offset in sorted(offsets.items()):
            batch = self._transport.read(topic, partition, offset, limit)
            found += [ev.ChannelRecord(r.key or "", r.value, r.offset) for r in batch]
            if batch:
                offsets[partition] = batch[-1].offset + 1
            is_at_end = is_at_end and len(batch) < limit
        self._offsets = offsets  # not before all are read: an error must not lose a record
        return found, is_at_end

    def _failed(self, error: TransportError, what: str, backoff: Backoff) -> None:
        self.counts.transport_errors += 1
        pause_ms = backoff.failed(self._clock())
        self._log.warning(what, error=str(error), pause_ms=pause_ms)

    def _feed(self, event: ev.Event) -> None:
        self.state, actions = handle(self.state, event, self._clock(), self._agent)
        for action in actions:
            self._execute(action)
        self._watchdog.watch(None if self.state.is_fenced else self.state.polled_ms)

    def _execute(self, action: ev.Action) -> None:
        match action:
            case ev.Publish(key, record):
                self._publish(key, record)
            case ev.Acquire(bundle):
                self._done.put(ev.Acquired(bundle, _error_of(self._port.acquire, bundle)))
            case ev.Split(bundle, children):
                self._done.put(ev.SplitDone(bundle, _error_of(self._port.split, bundle, children)))
            case ev.Release(bundle):
                self._pool.submit(self._release, bundle)
            case ev.Fence():
                self._port.fence()
                self._outbox = _Outbox()
                self._log.warning("lease ran out, nothing is served", lease_ms=self._agent.lease_ms)
            case ev.Unfence():
                self._port.unfence()
                self._log.info("channel is read again, serving resumes")
            case ev.SendReport(sequence):
                self._report(sequence)
            case ev.SendHeartbeat(sequence):
                self._heartbeat(sequence)

    def _release(self, bundle: str) -> None:
        self._done.put(ev.Released(bundle, _error_of(self._port.release, bundle)))

    def _publish(self, key: str, record: ServiceUnitStateData | None) -> None:
        value = None
        if record is not None:
            value = encode_channel(msgspec.structs.replace(record, timestamp=self._wall()))
        if len(self._outbox.channel) >= self._settings.outbox_records_max:
            self.counts.dropped += 1  # the controller repairs what stays in flight
            return
        self._outbox.channel.append(OutRecord(self._settings.channel_topic, key, value))

    def _heartbeat(self, sequence: int) -> None:
        cluster, broker = self.state.cluster, self.state.broker
        beat = Heartbeat(cluster=cluster, broker=broker, sequence=sequence, timestamp=self._wall())
        self._queue_report(encode_heartbeat(beat))

    def _report(self, sequence: int) -> None:
        try:
            value = encode_load_report(self._load_report(sequence))
        except Exception as error:  # the port's own code: anything may come
            self.counts.report_errors += 1
            self._log.warning("broker gave no load report", error=repr(error))
            self._heartbeat(sequence)
            return
        self.counts.reports += 1
        self._queue_report(value)

    def _queue_report(self, value: bytes) -> None:
        self._outbox.reports = [OutRecord(self._settings.reports_topic, self._key, value)]

    def _load_report(self, sequence: int) -> LoadReport:
        load = self._port.load_report()
        return LoadReport(
            cluster=self.state.cluster,
            broker=self.state.broker,
            sequence=sequence,
            timestamp=self._wall(),
            full=True,
            cpu=load.cpu,
            memory=load.memory,
            directMemory=load.direct_memory,
            bandwidthIn=load.bandwidth_in,
            bandwidthOut=load.bandwidth_out,
            zone=load.zone,
            brokerVersion=load.version,
            bundles={name: self._with_hashes(name, load.bundles[name]) for name in load.bundles},
        )

    def _with_hashes(self, bundle: str, stats: BundleStats) -> BundleStats:
        if stats.topics <= self._settings.topic_hashes_above:
            return stats
        return msgspec.structs.replace(stats, topicHashes=self._port.topic_hashes(bundle))

    def _flush(self) -> None:
        """Appends what waits; channel records stay in the outbox until the transport has them."""
        waiting = self._outbox.channel + self._outbox.reports
        if not waiting:
            return
        self._outbox.reports = []
        try:
            self._transport.append(waiting)
        except TransportError as error:
            self._failed(error, "records cannot be appended", self._writes)
            return
        self._writes.succeeded(self._clock())
        self._outbox.channel = []


class _Totals(msgspec.Struct):
    """Totals for the last log line."""

    polls: int
    transport_errors: int
    reports: int
    losing_records: int
    fences: int
    serving_at_end: int

    @classmethod
    def of(cls, runtime: AgentRuntime) -> _Totals:
        counts, core = runtime.counts, runtime.state.counts
        return cls(
            polls=counts.polls,
            transport_errors=counts.transport_errors,
            reports=counts.reports,
            losing_records=core.losing,
            fences=core.fences,
            serving_at_end=len(serving(runtime.state)),
        )


def _error_of(operation: Callable[..., None], *arguments: object) -> str | None:
    """Runs an operation of the port; its error as text, None if it went well."""
    try:
        operation(*arguments)
    except Exception as error:  # the port's own code: anything may come
        return repr(error)
    return None
