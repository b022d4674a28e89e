"""Connections to the log file: one per process and thread, and errors that say what to do.

SQLite connections must not cross a fork (Spark's Python workers are forked) nor a thread; a
`Store` opens a new one when it finds itself in another process or thread.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.transport.embedded.schema import MIGRATIONS, TABLES, VERSION
from controller.transport.errors import (
    BusyError,
    ClosedError,
    CorruptError,
    DiskFullError,
    NotWritableError,
    SchemaError,
    TransportError,
)

BUSY_WAIT_MS = 15_000  # a writer holds the lock for milliseconds; longer means that it hangs

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}
"""`process`: what was acknowledged survives the death of any process (the system's cache holds
it), but a power cut may lose the last moments. `power`: every commit waits for the disk."""


class Store:
    """One log file, opened where it is used."""

    def __init__(self, path: Path, durability: str, busy_wait_ms: int) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability {durability!r}: use one of {', '.join(SYNCHRONOUS)}")
        self.path = path
        self.durability = durability
        self.busy_wait_ms = busy_wait_ms
        self._local = threading.local()
        self._is_closed = False
        with self.errors():
            self._prepare()

    def connection(self) -> sqlite3.Connection:
        """The connection of this process and thread."""
        if self._is_closed:
            raise ClosedError(f"{self.path} was closed")
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.connection = self._connect()
            self._local.pid = os.getpid()
        connection: sqlite3.Connection = self._local.connection
        return connection

    def close(self) -> None:
        """Closes this thread's connection; those of other threads end with them."""
        if not self._is_closed and getattr(self._local, "pid", None) == os.getpid():
            self._local.connection.close()
        self._is_closed = True

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent picture for several queries."""
        with self.errors():
            connection = self.connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed at the end, undone by any exception."""
        with self.errors():
            connection = self.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
            except BaseException:
                if connection.in_transaction:
                    connection.rollback()
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns SQLite's errors into ours."""
        started = time.monotonic()
        try:
            yield
        except sqlite3.Error as error:
            waited_ms = int((time.monotonic() - started) * 1_000)
            raise _translated(error, self.path, waited_ms) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self.busy_wait_ms / 1_000, isolation_level=None
        )
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[self.durability]}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        return connection

    def _prepare(self) -> None:
        """Creates or migrates the file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritableError(f"cannot make the folder {self.path.parent}: {error}") from error
        connection = self.connection()
        self._enable_wal(connection)
        if self._version(connection) == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        version = self._version(connection)
        if version > VERSION:
            connection.rollback()
            raise SchemaError(
                f"{self.path} has version {version}, this program knows {VERSION}: upgrade it"
            )
        try:
            for script in [TABLES] if version == 0 else _migrations(version):
                for statement in script.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    def _enable_wal(self, connection: sqlite3.Connection) -> None:
        """Switching to WAL does not wait for locks by itself, so wait here."""
        deadline = time.monotonic() + self.busy_wait_ms / 1_000
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _version(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrations(version: int) -> list[str]:
    return [MIGRATIONS[old] for old in range(version, VERSION)]


def _translated(error: sqlite3.Error, path: Path, waited_ms: int) -> TransportError:
    name = getattr(error, "sqlite_errorname", "") or ""
    for prefix, make in _SENTENCES:
        if name.startswith(prefix):
            return make(path, waited_ms)
    return TransportError(f"{path}: {error}")


_SENTENCES: tuple[tuple[str, Callable[[Path, int], TransportError]], ...] = (
    (
        "SQLITE_BUSY",
        lambda path, ms: BusyError(
            f"{path} stayed locked by other processes for {ms} ms: look for one that hangs"
        ),
    ),
    (
        "SQLITE_LOCKED",
        lambda path, ms: BusyError(f"{path} stayed locked for {ms} ms"),
    ),
    (
        "SQLITE_FULL",
        lambda path, ms: DiskFullError(
            f"no room to write to {path}: nothing was written; make room on its disk, "
            "or apply retention"
        ),
    ),
    (
        "SQLITE_IOERR",
        lambda path, ms: DiskFullError(
            f"the disk under {path} refused a read or write (full or failing): nothing was "
            "written; check its free space and health"
        ),
    ),
    (
        "SQLITE_NOTADB",
        lambda path, ms: CorruptError(f"{path} is not a log file: give another path"),
    ),
    (
        "SQLITE_CORRUPT",
        lambda path, ms: CorruptError(
            f"{path} is damaged: restore it from a copy, or move it away and let brokers and "
            "controller start a new one"
        ),
    ),
    (
        "SQLITE_READONLY",
        lambda path, ms: NotWritableError(
            f"{path} cannot be written: check the owner and mode of the file and its folder"
        ),
    ),
    (
        "SQLITE_CANTOPEN",
        lambda path, ms: NotWritableError(
            f"{path} cannot be opened: check that its folder exists and may be written"
        ),
    ),
)
