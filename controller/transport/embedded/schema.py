"""Tables of the log file, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.transport.errors import CorruptError, SchemaError

APPLICATION_ID = 0x62646C67  # "bdlg": tells a log from any other SQLite file

# Short columns stand before the value: SQLite walks through a long one to reach what follows it.
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
    last_sequence INTEGER NOT NULL DEFAULT 0,
    trimmed_offset INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    ingest_ms INTEGER NOT NULL,
    key TEXT,
    headers BLOB,
    value BLOB
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


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables of one version, and the steps that lead to it from older ones."""

    version: int
    tables: str
    migrations: Mapping[int, str] = field(default_factory=dict)
    """Version -> statements that turn a file of that version into one of the next."""

    def is_current(self, connection: sqlite3.Connection, path: Path) -> bool:
        """Whether the file needs nothing; False if it is new or of an older version.

        Raises `SchemaError` for a newer one, `CorruptError` for another program's. To be called
        in a transaction: the file may be in the making by another process.
        """
        application, version = _pragma(connection, "application_id"), self._version(connection)
        objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != APPLICATION_ID and (application or version or objects):
            raise CorruptError(
                f"{path} is a database of another program, not a log: give another path"
            )
        if version > self.version:
            raise SchemaError(
                f"{path} has version {version}, this program knows up to {self.version}: "
                "upgrade this program, or give another path"
            )
        return version == self.version

    def upgrade(self, connection: sqlite3.Connection) -> None:
        """Makes the tables, or takes the steps from the file's version; in a transaction."""
        version = self._version(connection)
        if version == 0:
            scripts = [self.tables]
        else:
            scripts = [self.migrations[old] for old in range(version, self.version)]
        for script in scripts:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {self.version}")

    def _version(self, connection: sqlite3.Connection) -> int:
        return _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


SCHEMA = Schema(version=1, tables=TABLES)
