"""Who was heard lately: the keys of a topic's last records, without reading what they say."""

from __future__ import annotations

from controller.transport.embedded.log import EmbeddedLog
from controller.transport.port import Transport

READ_MAX = 1_000


def recent_keys(log: Transport, topic: str, records_max: int) -> set[str]:
    """Keys of the last records of each partition, at most so many of a partition."""
    ends = log.end_offsets(topic)
    if isinstance(log, EmbeddedLog):
        return _of_file(log, topic, records_max, ends)
    starts = log.start_offsets(topic)
    found: set[str] = set()
    for partition, end in ends.items():
        offset = max(starts[partition], end - records_max)
        while batch := log.read(topic, partition, offset, READ_MAX):
            found.update(record.key for record in batch if record.key is not None)
            offset = batch[-1].offset + 1
            if offset >= end:  # what comes in while this reads is not waited for
                break
    return found


def _of_file(log: EmbeddedLog, topic: str, records_max: int, ends: dict[int, int]) -> set[str]:
    """The same by one query each: values are not even read from the disk."""
    query = (
        "SELECT DISTINCT key FROM records WHERE topic = (SELECT id FROM topics WHERE name = ?) "
        "AND partition = ? AND offset >= ? AND key IS NOT NULL"
    )
    found: set[str] = set()
    with log.store.reading() as connection:
        for partition, end in ends.items():
            rows = connection.execute(query, (topic, partition, end - records_max))
            found.update(key for (key,) in rows)
    return found
