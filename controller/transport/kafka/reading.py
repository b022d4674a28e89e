"""Reads partitions of Kafka from any offset, committed records only.

One consumer without a group for all partitions that somebody reads; only the one that is asked for
is fetched. That a broker answered is proved by every read: its end offset is asked for, which
raises where a consumer's poll would only return nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from controller.transport.errors import (
    OffsetOutOfRangeError,
    TransportError,
    UnknownTopicError,
    UnreachableError,
)
from controller.transport.kafka.failures import as_transport_error
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.port import LogRecord

POLL_MS = 100


class PartitionReader:
    """Any number of partitions; `wait_ms` bounds every wait. Not thread safe."""

    def __init__(
        self, connect: Callable[[], KafkaConsumer], settings: KafkaSettings, wait_ms: int
    ) -> None:
        self._connect = connect
        self._settings, self._wait_ms = settings, wait_ms
        self._consumer: KafkaConsumer | None = None
        self._turned_to: TopicPartition | None = None  # the partition that is fetched
        self._next = -1  # where one who reads on in it goes on

    def close(self) -> None:
        """Ends the connections; a later read connects again."""
        consumer, self._consumer = self._consumer, None
        self._turned_to = None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def partitions(self, topic: str) -> list[int]:
        """Partitions of a topic in order; raises `UnknownTopicError`."""
        found = self._ask(f"asking for {topic}", lambda c: c.partitions_for_topic(topic))
        if not found:
            raise UnknownTopicError(
                f"topic {topic} does not exist in Kafka at {self._settings.bootstrap_servers}: "
                "create it with bundlectl topics create, or start the controller first"
            )
        return sorted(found)

    def topics(self) -> dict[str, int]:
        """Number of partitions by topic, in name order."""

        def ask(consumer: KafkaConsumer) -> dict[str, int]:
            return {name: len(consumer.partitions_for_topic(name) or ()) for name in names}

        names = sorted(self._ask("listing topics", lambda c: c.topics()))
        found: dict[str, int] = self._ask("listing topics", ask)
        return found

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record that is committed, by partition."""
        places = [TopicPartition(topic, number) for number in self.partitions(topic)]
        return self._offsets(places, "end")

    def starts(self, topic: str) -> dict[int, int]:
        """The first offset that retention has left, by partition."""
        places = [TopicPartition(topic, number) for number in self.partitions(topic)]
        return self._offsets(places, "beginning")

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Up to `limit` records from `offset` on; fewer only if the end was reached."""
        place = TopicPartition(topic, partition)
        end = self._offsets([place], "end")[partition]
        if offset > end:
            raise OffsetOutOfRangeError(
                f"topic {topic} partition {partition} ends at offset {end}, but {offset} was asked "
                "for: the topic was made anew, or records were lost; begin again from its start"
            )
        if offset == end or limit < 1:
            return []
        found = self._ask(f"reading {topic}", lambda c: self._fetch(c, place, offset, end, limit))
        return [_record(one) for one in found]

    # ------------------------------------------------------------------ inside

    def _ask(self, doing: str, ask: Callable[[KafkaConsumer], Any]) -> Any:
        """One question to the brokers; after an error the next one connects anew."""
        try:
            if self._consumer is None:
                self._consumer = self._connect()
            return ask(self._consumer)
        except kafka_errors.KafkaError as error:
            self.close()
            raise as_transport_error(error, self._settings, doing) from error
        except TransportError:
            self.close()
            raise

    def _offsets(self, places: list[TopicPartition], which: str) -> dict[int, int]:
        def ask(consumer: KafkaConsumer) -> Any:
            return getattr(consumer, f"{which}_offsets")(places, timeout_ms=self._wait_ms)

        found = self._ask(f"asking for offsets of {places[0].topic}", ask)
        return {place.partition: int(found[place]) for place in places}

    def _fetch(
        self, consumer: KafkaConsumer, place: TopicPartition, offset: int, end: int, limit: int
    ) -> list[Any]:
        """Fetches until `limit` or `end` is reached; the others are not fetched."""
        self._turn_to(consumer, place, offset)
        deadline = time.monotonic() + self._wait_ms / 1_000
        found: list[Any] = []
        while len(found) < limit and consumer.position(place) < end:
            fetched = consumer.poll(POLL_MS, max_records=limit - len(found))
            found += fetched.get(place, ())
            if not fetched and time.monotonic() > deadline:
                raise UnreachableError(
                    f"Kafka at {self._settings.bootstrap_servers} gave no records of "
                    f"{place.topic} partition {place.partition} within {self._wait_ms} ms: look "
                    "whether its leader is up"
                )
        self._next = found[-1].offset + 1 if found else offset
        return found

    def _turn_to(self, consumer: KafkaConsumer, place: TopicPartition, offset: int) -> None:
        """Makes `place` the one that is fetched, from `offset` on.

        Who reads on where the last read ended is not sent back: what lies between are markers of
        transactions, or what compaction removed, and the consumer has passed them already.
        (Pausing all others instead made kafka-python 3.0.12 stop fetching a resumed partition.)
        """
        if place != self._turned_to:
            consumer.assign([place])
            self._turned_to, self._next = place, -1
        if self._next != offset:
            consumer.seek(place, offset)
            self._next = offset


def _record(found: Any) -> LogRecord:
    return LogRecord(
        sequence=found.offset,
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        key=None if found.key is None else found.key.decode("utf-8", "replace"),
        value=found.value,
        headers=tuple((str(name), value) for name, value in found.headers),
        ingest_ms=found.timestamp,
    )
