"""Connections to the log file: one per thread, none across a fork.

SQLite keeps its locks per process, in memory that a fork copies: a child that so much as opens
the same file again, while an inherited connection is open, believes in locks that only its
parent holds, and can lose data (https://www.sqlite.org/howtocorrupt.html, 2.6). So all connections
are closed before a fork, and opened again, on both sides, where they are next used.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.transport.embedded.schema import SCHEMA, Schema
from controller.transport.embedded.translation import translated
from controller.transport.errors import ClosedError, CorruptError, NotWritableError

BUSY_WAIT_MS = 15_000  # a writer holds the lock for milliseconds; longer means that it hangs
SMALLEST_BYTES = 512  # SQLite's least page; it would take less for empty, and write over it
WAL_KEPT_BYTES = 64 * 1024 * 1024  # a big batch may make the WAL longer; then it is cut again

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}
"""`process`: what was acknowledged survives the death of any process (the system's cache holds
it), but a power cut may lose the last moments. `power`: every commit waits for the disk."""


class _Slot:
    """A thread's connection. The lock is held while it is used, so a fork waits for that."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: sqlite3.Connection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Store:
    """One log file, opened where it is used."""

    def __init__(
        self, path: Path, durability: str, busy_wait_ms: int, schema: Schema = SCHEMA
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability {durability!r}: use one of {', '.join(SYNCHRONOUS)}")
        self.path = path.absolute()  # a later change of folder must not lead to another file
        self.durability = durability
        self.busy_wait_ms = busy_wait_ms
        self._schema = schema
        self._local = threading.local()
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()  # a thread's end frees its own
        self._is_closed = False
        self._identity: tuple[int, int] | None = None
        with _fork_lock:
            _stores.add(self)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file for all threads, each after what it is just doing."""
        self._is_closed = True
        with _fork_lock:
            slots = list(self._slots)
        for slot in slots:
            with slot.lock:
                slot.close()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, without a transaction; SQLite's errors become ours."""
        started = time.monotonic()
        slot = self._slot()
        try:
            with slot.lock:
                yield self._opened(slot)
        except sqlite3.Error as error:
            waited_ms = int((time.monotonic() - started) * 1_000)
            raise translated(error, self.path, waited_ms) from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent picture for several queries."""
        with self.using() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._roll_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed at the end, undone by any exception."""
        with self.using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
            except BaseException:
                self._roll_back(connection)
                raise

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:  # some errors have rolled back already
                connection.rollback()
        except sqlite3.Error:  # whatever state it is in, the next use starts with a new one
            self._slot().close()

    def _slot(self) -> _Slot:
        slot: _Slot | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = _Slot()
            with _fork_lock:
                self._slots.add(slot)
        return slot

    def _opened(self, slot: _Slot) -> sqlite3.Connection:
        if self._is_closed:
            raise ClosedError(f"{self.path} was closed by this process: open it again")
        if self._identity is not None and _identity(self.path) != self._identity:
            raise CorruptError(
                f"{self.path} was moved, removed or replaced while in use: put it back, or "
                "restart this process to use what is there now"
            )
        if slot.connection is None:
            slot.connection = self._connect()
        return slot.connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self.busy_wait_ms / 1_000,
            isolation_level=None,
            check_same_thread=False,  # a slot's lock sees to it; a fork closes those of others
        )
        try:
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[self.durability]}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
            connection.execute("PRAGMA secure_delete = OFF")  # no need to write what is removed
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Creates or migrates the file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritableError(
                f"cannot make the folder {self.path.parent} ({error.strerror}): give another path"
            ) from error
        if self.path.is_file() and 0 < self.path.stat().st_size < SMALLEST_BYTES:
            raise CorruptError(f"{self.path} is not a log: give another path")
        self._refuse_emptied()
        with self.reading() as connection:
            is_current = self._schema.is_current(connection, self.path)
        with self.using() as connection:
            self._enable_wal(connection)
        if not is_current:
            with self.writing() as connection:  # another process may have been faster
                if not self._schema.is_current(connection, self.path):
                    self._schema.upgrade(connection)
        self._identity = _identity(self.path)

    def _refuse_emptied(self) -> None:
        """SQLite takes an empty file for a new one and removes the write-ahead file beside it."""
        wal = self.path.with_name(self.path.name + "-wal")
        try:
            is_emptied = os.stat(wal).st_size > 0 and os.stat(self.path).st_size == 0
        except FileNotFoundError:
            return
        if is_emptied:
            raise CorruptError(
                f"{self.path} was emptied, but {wal.name} beside it holds records: restore both "
                "from a copy, or move both away to start a new log"
            )

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


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# ---------------------------------------------------------------------------- forks
_fork_lock = threading.Lock()  # no new store or slot while it is held
_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_held: list[_Slot] = []


def _before_fork() -> None:
    _fork_lock.acquire()
    for store in list(_stores):
        for slot in list(store._slots):
            slot.lock.acquire()
            _held.append(slot)
            slot.close()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()
    _fork_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
