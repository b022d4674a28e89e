"""Feeds Spark's progress into the metrics. Runs on Spark's listener thread and must not block."""

from __future__ import annotations

import json
from typing import Any

import structlog
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streaming.metrics import Metrics
from streaming.pace import Pace

log = structlog.get_logger("streaming.listener")


class ProgressListener(StreamingQueryListener):
    """One per process; logs the life of the query and counts its triggers."""

    def __init__(self, metrics: Metrics, pace: Pace) -> None:
        self._metrics, self._pace = metrics, pace

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Logs which query began, and with which run."""
        log.info("query started", query=event.name, query_id=str(event.id), run=str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Counts one trigger; triggers without a batch carry no duration of interest."""
        progress = event.progress
        durations = progress.durationMs
        if "addBatch" not in durations:
            return
        lag = sum(lag_of(source.endOffset, source.latestOffset) for source in progress.sources)
        self._pace.saw(lag)
        self._metrics.trigger(
            seconds=durations.get("triggerExecution", 0) / 1_000,
            rows=progress.numInputRows,
            state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
            lag=lag,
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """An idle query is a healthy one."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Logs the end."""
        log.info("query ended", query_id=str(event.id), failed=event.exception is not None)


def lag_of(end: Any, latest: Any) -> int:
    """Records between what was read and the end of the log; 0 where Spark does not say.

    Offsets are `{"sequence": n}` (embedded) or `{topic: {partition: offset}}` (Kafka); a partition
    that is new counts from 0.
    """
    try:
        reached, last = json.loads(end), json.loads(latest)
        if "sequence" in last:
            return max(0, last["sequence"] - reached["sequence"])
        return sum(
            max(0, offset - reached.get(topic, {}).get(partition, 0))
            for topic, offsets in last.items()
            for partition, offset in offsets.items()
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return 0
