"""Tables of the log file, and how an older file becomes a newer one."""

from __future__ import annotations

from collections.abc import Mapping

VERSION = 1

TABLES = """
CREATE TABLE topics (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    partitions INTEGER NOT NULL,
    cleanup TEXT NOT NULL,
    retention_ms INTEGER,
    trimmed_sequence INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE partitions (
    topic INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key TEXT,
    value BLOB,
    headers BLOB,
    ingest_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX records_place ON records (topic, partition, offset);
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    next_sequence INTEGER NOT NULL,
    ingest_ms INTEGER NOT NULL
);
INSERT INTO head VALUES (1, 1, 0);
CREATE TABLE markers (
    name TEXT PRIMARY KEY,
    query_id TEXT NOT NULL,
    batch_id INTEGER NOT NULL,
    epoch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""

MIGRATIONS: Mapping[int, str] = {}
"""Version -> statements that turn a file of that version into one of the next."""
