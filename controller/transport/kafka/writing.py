"""Writes to Kafka: single records for agents and tools, whole transactions for the job's sink.

A transaction holds the records of a batch and its marker, so readers of committed records see all
of it or nothing. Starting a writer under a transactional id fences the one before and ends what it
had left open. Every error inside a transaction is final for the process: only a new start can find
out what the brokers have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from controller.transport.errors import (
    CommitUnknownError,
    FencedError,
    TransportError,
)
from controller.transport.kafka.failures import as_transport_error
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.port import OutRecord

FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
COMMIT_MIN_MS = 1_000  # a commit is given at least so long, however long the sends took
CLOSE_S = 1.0  # what is not acknowledged by then is reported as failed anyway

Acknowledged = list[tuple[int, int, int]]
"""partition, offset, ingest_ms of each record"""


class Appender:
    """Appends records that belong to no batch. Makes a new producer after every error."""

    def __init__(
        self, connect: Callable[[], KafkaProducer], settings: KafkaSettings, wait_ms: int
    ) -> None:
        self._connect = connect
        self._settings, self._wait_ms = settings, wait_ms
        self._producer: KafkaProducer | None = None

    def append(self, records: Sequence[OutRecord]) -> Acknowledged:
        """Sends all and waits for all; after an error some may have been written."""
        try:
            if self._producer is None:
                self._producer = self._connect()
            return _sent(self._producer, records, self._wait_ms)
        except kafka_errors.KafkaError as error:
            self.close()
            raise as_transport_error(error, self._settings, "appending records") from error
        except TransportError:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            _end(producer)


class TransactionWriter:
    """The one writer under a transactional id, from `start` until another one starts.

    `reached` is told each stage of a publish.
    """

    def __init__(
        self, producer: KafkaProducer, settings: KafkaSettings, reached: Callable[[str], None]
    ) -> None:
        self._producer = producer
        self._reached = reached
        self._settings = settings
        self._id = str(producer.config["transactional_id"])

    def start(self) -> None:
        """Fences older writers and ends what they left open; raises `TransportError`s."""
        self._guarded("starting transactions", self._producer.init_transactions)

    def publish(self, records: Sequence[OutRecord], wait_ms: int) -> None:
        """All records in one transaction. Raises `FencedError`, or `CommitUnknownError`."""
        deadline = time.monotonic() + wait_ms / 1_000

        def send() -> None:
            self._producer.begin_transaction()
            _sent(self._producer, records, wait_ms, lambda: self._reached("mid_send"))
            self._reached("before_commit")

        try:
            self._guarded("publishing a batch", send)
        except FencedError:
            raise
        except TransportError:
            self._abort()
            raise
        rest_ms = max(COMMIT_MIN_MS, round((deadline - time.monotonic()) * 1_000))
        self._guarded("committing a batch", lambda: self._commit(rest_ms))

    def close(self) -> None:
        """Ends the connections; what is open is ended by the brokers or the next writer."""
        _end(self._producer)

    def _commit(self, wait_ms: int) -> None:
        _within(
            self._producer.commit_transaction,
            wait_ms,
            f"Kafka at {self._settings.bootstrap_servers} did not answer a commit within "
            f"{wait_ms} ms: whether the batch is published is found out at the next start",
        )

    def _abort(self) -> None:
        """Tries to; the brokers abort after transaction_timeout_ms anyway."""
        try:
            _within(self._producer.abort_transaction, 2_000, "no answer to an abort")
        except (kafka_errors.KafkaError, TransportError):
            return

    def _guarded(self, doing: str, work: Callable[[], None]) -> None:
        try:
            work()
        except FENCED as error:
            raise self._fenced(error) from error
        except kafka_errors.KafkaError as error:
            if "ProducerFenced" in str(error) or "InvalidProducerEpoch" in str(error):
                raise self._fenced(error) from error
            raise as_transport_error(error, self._settings, doing) from error

    def _fenced(self, error: Exception) -> FencedError:
        return FencedError(
            f"another controller publishes as {self._id} now ({type(error).__name__}): this one "
            "was paused, or cut off from Kafka, for longer than its lease"
        )


def _sent(
    producer: KafkaProducer,
    records: Sequence[OutRecord],
    wait_ms: int,
    midway: Callable[[], None] = lambda: None,
) -> Acknowledged:
    """Sends records in order and waits until all are acknowledged; `midway` comes between."""
    deadline = time.monotonic() + wait_ms / 1_000
    waiting = [
        producer.send(
            record.topic,
            key=None if record.key is None else record.key.encode(),
            value=record.value,
            headers=list(record.headers),
        )
        for record in records
    ]
    midway()
    producer.flush(timeout=wait_ms / 1_000)
    found: Acknowledged = []
    for one in waiting:
        answer: Any = one.get(timeout=max(0.001, deadline - time.monotonic()))
        found.append((answer.partition, answer.offset, answer.timestamp))
    return found


def _end(producer: KafkaProducer) -> None:
    """Closes a producer, and throws away what it could not send.

    Its own close raises where something is unsent, and leaves its thread to send it one day
    (kafka-python 3.0.12).
    """
    try:
        producer.close(timeout=CLOSE_S)
    except kafka_errors.KafkaError:
        producer._sender.force_close()
        with suppress(kafka_errors.KafkaError):
            producer.close(timeout=CLOSE_S)


def _within(work: Callable[[], None], wait_ms: int, sentence: str) -> None:
    """Runs `work` in a thread and gives it up after so long: the client has no limit of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="kafka-transaction", daemon=True)
    thread.start()
    thread.join(wait_ms / 1_000)
    if thread.is_alive():
        raise CommitUnknownError(sentence)
    if raised:
        raise raised[0]
