"""Publishes what a micro-batch decided: exactly once by effect, or the query fails.

Spark runs a batch again after a crash with the same inputs and state, hence with the same rows.
All rows of a batch go into the log in one transaction together with a marker (query id, batch id);
a batch whose marker is there already is not published again. Nothing is chosen here. A channel
write is refused only if it came too late (a controller that catches up must not act on the past) or
if the job only observes: the refusal goes back as a `refused` command, hence as input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import structlog
from pyspark.sql import DataFrame, Row

from controller.transport.port import Headers, Marker, OutRecord, Transport
from controller.wire.commands import Refused, encode_command
from streaming.checkpoint import check_adopting, check_against_marker
from streaming.faults import Fault
from streaming.lease import LeaseKeeper
from streaming.metrics import Metrics

log = structlog.get_logger("streaming.sink")

EPOCH = "epoch"  # header: decimal digits
CHANNEL_KINDS = ("channel", "tombstone")  # rows hold no nulls, so a tombstone has its own kind
QUERY_ID_WAIT_S = 30.0  # the id is known a moment after start(); the first batch may be earlier


@dataclass(frozen=True, slots=True)
class Topics:
    """Where the sink writes."""

    channels: Mapping[str, str]  # cluster -> channel topic
    commands: str
    decisions: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Records of one batch in the order of publishing, with counts for the log line."""

    records: tuple[OutRecord, ...]
    published: int  # channel records
    refused: int
    muted: int  # channel records refused because the job only observes


class Sink:
    """The foreachBatch function. Keeps a connection, and whether this process has published."""

    def __init__(
        self,
        open_transport: Callable[[Callable[[str], None]], Transport],
        keeper: LeaseKeeper,
        topics: Topics,
        query_name: str,
        checkpoint: str,
        is_acting: bool,
        metrics: Metrics,
        clock: Callable[[], int],
        fault: Fault,
        may_adopt: bool = True,
    ) -> None:
        self._open = open_transport
        self._transport: Transport | None = None
        self._keeper = keeper
        self._topics = topics
        self._name = query_name
        self._checkpoint = checkpoint
        self._is_acting = is_acting
        self._metrics = metrics
        self._clock = clock
        self._fault = fault
        self._batch_id = -1  # of the batch at hand
        self._may_adopt = may_adopt
        self._is_fresh = True  # until the first publish; from then on the marker is our last batch
        self.query_id: Future[str] = Future()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Collects once, publishes once, raises on any failure."""
        started = time.monotonic()
        self._batch_id = batch_id
        frame.sparkSession.sparkContext.setJobDescription(f"{self._name}: decide batch {batch_id}")
        self._fault.watch_state(self._checkpoint, batch_id)
        rows = sorted(frame.collect(), key=lambda row: (row.cluster, row.seq))
        decided = time.monotonic()
        self._fault.reach("before_publish", batch_id)
        outcome = self._publish(rows, batch_id)
        self._fault.reach("after_publish", batch_id)
        self._metrics.batch(rows, batch_id, outcome is not None)
        if outcome is not None and outcome.records:
            log.info(
                "batch",
                batch_id=batch_id,
                channel=outcome.published,
                refused=outcome.refused,
                muted=outcome.muted,
                records=len(outcome.records),
                decide_ms=round((decided - started) * 1_000),
                publish_ms=round((time.monotonic() - decided) * 1_000),
            )

    def open(self) -> None:
        """Connects, and makes this process the one writer; the lease must be held."""
        self._transport = self._open(lambda stage: self._fault.reach(stage, self._batch_id))
        self._transport.begin_writing(self._keeper.lease)

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.close()

    def _publish(self, rows: Sequence[Row], batch_id: int) -> Outcome | None:
        """None if this batch was published before."""
        if self._transport is None:
            self.open()
        assert self._transport is not None
        query_id = self.query_id.result(QUERY_ID_WAIT_S)
        if self._is_fresh and self._is_published(query_id, batch_id):
            log.info("batch was published before the restart", batch_id=batch_id)
            return None
        lease = self._keeper.lease
        outcome = plan_records(rows, self._topics, self._clock(), self._is_acting, lease.epoch)
        if not outcome.records:
            return outcome  # a batch without effects needs no marker: replayed, it has none again
        marker = Marker(self._name, query_id, batch_id, lease.epoch)
        self._transport.publish(outcome.records, marker, lease)
        self._is_fresh = False
        self._metrics.published(outcome.published, outcome.refused)
        return outcome

    def _is_published(self, query_id: str, batch_id: int) -> bool:
        """True if the marker is of this batch; raises `CheckpointError` if it cannot be so.

        Spark begins with the last batch that it planned, or with the next one, so a later marker
        means that the checkpoint was put back.
        """
        assert self._transport is not None
        marker = self._transport.marker(self._name)
        check_against_marker(query_id, batch_id, marker)
        if marker is None or marker.query_id == query_id:
            return marker is not None and marker.batch_id == batch_id
        check_adopting(False, marker, "the log", self._may_adopt)
        self._is_fresh = False
        log.warning(
            "adopting the channel from another checkpoint; nothing is decided until warm",
            its_query_id=marker.query_id,
            its_batch_id=marker.batch_id,
        )
        return False


def plan_records(
    rows: Sequence[Row], topics: Topics, now_ms: int, is_acting: bool, epoch: int
) -> Outcome:
    """The records of a batch, in the order of its rows; late channel writes become refusals.

    Each carries the epoch of the lease it was written under: readers can tell two writers apart.
    """
    headers: Headers = ((EPOCH, str(epoch).encode("ascii")),)
    records: list[OutRecord] = []
    published = refused = muted = 0
    for row in rows:
        value = bytes(row.value)
        is_channel = row.topic_kind in CHANNEL_KINDS
        if is_channel and not is_acting:
            records.append(_refusal(row, topics.commands, "observing", headers))
            muted += 1
        elif is_channel and row.valid_until_ms < now_ms:
            records.append(_refusal(row, topics.commands, "expired", headers))
            refused += 1
        elif is_channel:
            written = None if row.topic_kind == "tombstone" else value
            records.append(OutRecord(topics.channels[row.cluster], row.key, written, headers))
            published += 1
        elif row.topic_kind == "decision":
            records.append(OutRecord(topics.decisions, row.cluster, value, headers))
        elif row.topic_kind == "reject":
            records.append(OutRecord(topics.dead_letters, row.key or None, value, headers))
    return Outcome(tuple(records), published, refused, muted)


def _refusal(row: Row, topic: str, reason: str, headers: Headers) -> OutRecord:
    command = Refused(
        bundle=row.key,
        versionId=row.version,
        decisionId=row.decision_id,
        reason=reason,
        who="sink",
    )
    return OutRecord(topic, f"{row.cluster}/_sink", encode_command(command), headers)
