"""Who was heard lately: the keys of a topic's last records, without reading what they say."""

from __future__ import annotations

from controller.transport.embedded.log import EmbeddedLog


def recent_keys(log: EmbeddedLog, topic: str, records_max: int) -> set[str]:
    """Keys of the last records of each partition, at most so many of a partition."""
    ends = log.end_offsets(topic)
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
