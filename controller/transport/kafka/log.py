"""The log on Kafka. See `controller.transport.port` for the contract.

Offsets of a partition grow, but not by one: markers of transactions have offsets too, and
compaction leaves gaps. Ingest time is the brokers' (LogAppendTime). Only what is committed is
read. The marker lies in a compacted topic of the job's own, the lease in another one
(`controller.transport.kafka.topics`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from kafka import KafkaConsumer, KafkaProducer

from controller.transport.errors import ClosedError, UnknownTopicError
from controller.transport.kafka.failures import translated
from controller.transport.kafka.leases import LeaseLog
from controller.transport.kafka.markers import encoded_marker, last_marker
from controller.transport.kafka.reading import PartitionReader
from controller.transport.kafka.security import client_options
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.kafka.survey import TopicSurvey
from controller.transport.kafka.topics import (
    MESSAGE_BYTES_MAX,
    TopicSpec,
    markers_topic,
    own_specs,
    topic_settings,
)
from controller.transport.kafka.writing import Appender, TransactionWriter
from controller.transport.port import Lease, LeaseState, LogRecord, Marker, OutRecord

RETRY_MS = 20
"""Between attempts of one request. The next transaction may begin while the brokers still write the
markers of the last one; the client's default would then wait for 100 ms."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class KafkaLog:
    """One connection for each thing that is used; `wait_ms` bounds every wait for the brokers."""

    def __init__(
        self,
        settings: KafkaSettings,
        wait_ms: int = 15_000,
        clock: Callable[[], int] = wall_clock_ms,
        reached: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self._reached = reached
        self._settings, self._wait_ms = settings, wait_ms
        self._options = client_options(settings)
        self._is_closed = False
        self._reader = PartitionReader(self._consumer, settings, wait_ms)
        self._appender = Appender(self._producer, settings, wait_ms)
        self._leases = LeaseLog(self._reader, self._appender, clock)
        self._writer: tuple[Lease, TransactionWriter] | None = None

    # ------------------------------------------------------------------ topics
    def create_topic(
        self, name: str, partitions: int, cleanup: str = "delete", retention_ms: int | None = None
    ) -> None:
        """Creates a topic; see the port."""
        if partitions < 1 or cleanup not in ("delete", "compact"):
            raise ValueError("a topic has at least 1 partition and cleanup delete or compact")
        self.create(TopicSpec(name, partitions, topic_settings(cleanup, retention_ms)))

    def create(self, spec: TopicSpec) -> None:
        """Creates a topic with the settings of a spec; one that exists keeps its own."""
        self._check_open()
        with closing(TopicSurvey(self._settings)) as survey:
            survey.create(spec)

    def topics(self) -> dict[str, int]:
        """Number of partitions by topic, in name order; Kafka's own topics left out."""
        self._check_open()
        return self._reader.topics()

    # ------------------------------------------------------------------ writing
    def append(self, records: Sequence[OutRecord]) -> list[tuple[int, int]]:
        """Appends records; returns (partition, offset) of each.

        All are checked before any is sent; after an error on the way some may have been written.
        """
        self._check_open()
        for topic in sorted({record.topic for record in records}):
            self._reader.partitions(topic)
        return [(partition, offset) for partition, offset, _ in self._appender.append(records)]

    def begin_writing(self, lease: Lease) -> None:
        """Fences all who published under the lease's name before; see the port."""
        self._check_open()
        self._end_writing()
        with translated(self._settings):
            producer = self._producer(
                transactional_id=lease.name,
                transaction_timeout_ms=self._settings.transaction_timeout_ms,
            )
        writer = TransactionWriter(producer, self._settings, self._reached)
        self._writer = (lease, writer)
        writer.start()

    def publish(self, records: Sequence[OutRecord], marker: Marker, lease: Lease) -> None:
        """Records and marker in one transaction, if the lease still holds; see the port."""
        self._check_open()
        self._leases.check(lease)
        if self._writer is None or self._writer[0].epoch != lease.epoch:
            self.begin_writing(lease)
        assert self._writer is not None
        last = OutRecord(markers_topic(marker.name), marker.name, encoded_marker(marker))
        self._writer[1].publish([*records, last], self._wait_ms)

    def marker(self, name: str) -> Marker | None:
        """The last marker under a name."""
        self._check_open()
        return last_marker(self._reader, name)

    # ------------------------------------------------------------------ reading
    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Up to `limit` records of a partition from `offset` on, in order; see the port."""
        self._check_open()
        return self._reader.read(topic, partition, offset, limit)

    def start_offsets(self, topic: str) -> dict[int, int]:
        """The first offset that retention has left, by partition."""
        self._check_open()
        return self._reader.starts(topic)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last committed record, by partition."""
        self._check_open()
        return self._reader.ends(topic)

    # ------------------------------------------------------------------ leases and the end
    def acquire_lease(self, name: str, holder: str, ttl_ms: int) -> Lease:
        """Takes a lease that is free or has run out; raises `LeaseHeldError`."""
        self._check_open()
        for spec in own_specs(name):
            try:
                self._reader.partitions(spec.name)
            except UnknownTopicError:
                self.create(spec)
        last = self.marker(name)
        return self._leases.acquire(name, holder, ttl_ms, 0 if last is None else last.epoch)

    def renew_lease(self, lease: Lease, ttl_ms: int | None = None) -> Lease:
        """Prolongs a lease by its own time again, or by `ttl_ms`; raises `FencedError`."""
        self._check_open()
        return self._leases.renew(lease, ttl_ms)

    def lease_state(self, name: str) -> LeaseState | None:
        """Who has a lease, and for how long; None if nobody ever had it."""
        self._check_open()
        return self._leases.state(name)

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease up; does nothing if it is no longer its own."""
        self._check_open()
        self._leases.release(lease)

    def close(self) -> None:
        """Ends all connections; later calls raise `ClosedError`."""
        self._is_closed = True
        self._end_writing()
        self._appender.close()
        self._reader.close()

    # ------------------------------------------------------------------ inside
    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"Kafka at {self._settings.bootstrap_servers} was closed here")

    def _end_writing(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer[1].close()

    def _consumer(self) -> KafkaConsumer:
        with translated(self._settings):
            return KafkaConsumer(
                **self._options,
                group_id=None,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                fetch_max_wait_ms=100,
                max_partition_fetch_bytes=MESSAGE_BYTES_MAX,
                retry_backoff_ms=RETRY_MS,
            )

    def _producer(self, **more: object) -> KafkaProducer:
        with translated(self._settings):
            return KafkaProducer(
                **self._options,
                acks="all",
                linger_ms=0,
                max_block_ms=self._wait_ms,
                delivery_timeout_ms=max(self._wait_ms, self._settings.request_timeout_ms + 1),
                max_request_size=MESSAGE_BYTES_MAX,
                retry_backoff_ms=RETRY_MS,
                **more,
            )
