"""Refuses to read where the log has nothing to give: trimmed by retention, or past its end.

Called by `log` in the transaction that reads, so that nothing goes between check and reading.
Compaction does not count: what it removes is not missed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from controller.transport.errors import OffsetOutOfRangeError, UnknownTopicError

GivenUp = int | Mapping[str, int]
"""Sequence up to which a reader never asked: by topic (those not named: 0), or one for all."""

_REMEDY = (
    "records are lost; start anew (the controller with a new checkpoint), and keep retention "
    "longer than the longest downtime"
)


def check_offset(
    connection: sqlite3.Connection, topic: str, place: tuple[int, int], offset: int
) -> None:
    """Raises unless `offset` of a partition (topic id, partition) is left, or is its end."""
    query = "SELECT trimmed_offset, next_offset FROM partitions WHERE topic = ? AND partition = ?"
    row = connection.execute(query, place).fetchone()
    where = f"partition {place[1]} of {topic}"
    if row is None:
        raise UnknownTopicError(f"{where} does not exist: ask for one that the topic has")
    if offset < row[0]:
        raise OffsetOutOfRangeError(
            f"{where} was trimmed by retention up to offset {row[0]}, reader wants {offset}: "
            f"{_REMEDY}"
        )
    if offset > row[1]:
        raise OffsetOutOfRangeError(
            f"{where} ends at offset {row[1]}, reader is at {offset}: the file was replaced by an "
            "older one; read it from its beginning"
        )


def check_sequence(
    connection: sqlite3.Connection,
    path: str,
    topics: Sequence[int],
    after: int,
    given_up: GivenUp,
) -> None:
    """Raises if retention removed records of some topics (ids) that follow `after`.

    What it removed up to `given_up` the reader never asked for.
    """
    rows = connection.execute(
        "SELECT name, trimmed_sequence FROM topics WHERE trimmed_sequence > ? "
        f"AND id IN ({', '.join('?' * len(topics))}) ORDER BY id",
        (after, *topics),
    ).fetchall()
    for name, trimmed in rows:
        if trimmed > (given_up if isinstance(given_up, int) else given_up.get(name, 0)):
            raise OffsetOutOfRangeError(
                f"topic {name} of {path} was trimmed by retention up to sequence {trimmed}, "
                f"reader wants what follows {after}: {_REMEDY}"
            )
