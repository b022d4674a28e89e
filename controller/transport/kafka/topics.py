"""What each kind of topic needs, as Kafka topic settings; the reasons stand beside them.

`KafkaLog.create_topic` creates by it, `bundlectl topics` creates, checks and explains by it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Cleanup = Literal["delete", "compact"]

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
"""A full report of a broker with some 10,000 bundles, and a round's record in the decision log."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

COMPACTION_LAG_MS = 7 * DAY_MS
"""How long every record of a compacted channel stays as it was written. Kafka keeps the last record
of a key, also one that lost by the conflict rule; until the controller has seen it and written the
winner again, the records before it must not go. So: longer than the longest time without one."""

LEASE_RETENTION_MS = HOUR_MS
"""A lease is folded from its records of the last hour; renewals come every few seconds."""

MARKER_SEGMENT_MS = HOUR_MS
"""Only a closed segment is compacted; a marker is written with every batch that has effects."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic as it should be. `settings` are Kafka's own names; values as Kafka spells them."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    purpose: str = ""
    is_ordered: bool = False  # its records are of use in one order only: exactly one partition


def topic_settings(cleanup: str, retention_ms: int | None = None) -> dict[str, str]:
    """Settings of a topic of the log. Ingest time is the broker's: nobody else's clock counts."""
    found = {
        "cleanup.policy": cleanup,
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
    }
    if cleanup == "compact":
        found["min.compaction.lag.ms"] = str(COMPACTION_LAG_MS)
    if retention_ms is not None:
        found["retention.ms"] = str(retention_ms)
    return found


def markers_topic(name: str) -> str:
    """Topic of a job's markers. One for each job: what one has open must not hold up another."""
    return f"{name}-markers"


def lease_topic(name: str) -> str:
    """Topic of a job's writer lease."""
    return f"{name}-lease"


def own_specs(name: str) -> tuple[TopicSpec, TopicSpec]:
    """Topics of the job itself: markers and lease. Each has one partition, for its order."""
    markers = {
        **topic_settings("compact"),
        "min.compaction.lag.ms": "0",
        "segment.ms": str(MARKER_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.1",
    }
    lease = {
        **topic_settings("delete", LEASE_RETENTION_MS),
        "segment.ms": str(LEASE_RETENTION_MS // 4),
    }
    return (
        TopicSpec(markers_topic(name), 1, markers, "which batch was published last", True),
        TopicSpec(lease_topic(name), 1, lease, "which controller may publish", True),
    )
