"""Leases of the embedded log: who may publish under a name. Time is the log's.

All users of one file are on one machine, so their clocks are one; the log's time is that clock,
but never goes back. Every acquisition, also by the same holder, gets a new epoch: what was started
under an older one is fenced. So a holder's name must be its own alone (host and process id).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from controller.transport.embedded.connection import Store
from controller.transport.errors import FencedError, LeaseHeldError
from controller.transport.port import Lease, LeaseState

RELEASED = 0  # as `expires_ms`

Row = tuple[str, int, int, int]
"""holder, epoch, ttl_ms, expires_ms"""


class LeaseTable:
    """Reads and writes the table `leases`."""

    def __init__(self, store: Store, now_ms: Callable[[sqlite3.Connection], int]) -> None:
        self._store = store
        self._now_ms = now_ms

    def acquire(self, name: str, holder: str, ttl_ms: int) -> Lease:
        """Takes the lease if it is free, has run out, or is the holder's own."""
        with self._store.writing() as connection:
            now_ms = self._now_ms(connection)
            row = _row(connection, name)
            if row is not None and row[0] != holder and row[3] > now_ms:
                raise LeaseHeldError(name, row[0], row[3] - now_ms)
            epoch = 1 if row is None else row[1] + 1
            connection.execute(
                "INSERT INTO leases VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "holder = excluded.holder, epoch = excluded.epoch, ttl_ms = excluded.ttl_ms, "
                "expires_ms = excluded.expires_ms",
                (name, holder, epoch, ttl_ms, now_ms + ttl_ms),
            )
        return Lease(name, holder, epoch, now_ms + ttl_ms)

    def renew(self, lease: Lease, ttl_ms: int | None) -> Lease:
        """Prolongs the lease, also one that has run out if nobody took it, but not a given up one.

        A thread that renews late must not bring back what its process has released.
        """
        with self._store.writing() as connection:
            row = _row(connection, lease.name)
            if row is None or (row[0], row[1]) != (lease.holder, lease.epoch):
                raise _fenced(lease, row)
            if row[3] == RELEASED:
                raise _released(lease)
            expires_ms = self._now_ms(connection) + (row[2] if ttl_ms is None else ttl_ms)
            connection.execute(
                "UPDATE leases SET expires_ms = ? WHERE name = ?", (expires_ms, lease.name)
            )
        return Lease(lease.name, lease.holder, lease.epoch, expires_ms)

    def release(self, lease: Lease) -> None:
        """Lets the lease run out now; the epoch stays, so that it goes on growing."""
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE leases SET expires_ms = ? WHERE name = ? AND holder = ? AND epoch = ?",
                (RELEASED, lease.name, lease.holder, lease.epoch),
            )

    def state(self, name: str) -> LeaseState | None:
        """Who has it, without taking any lock that a writer needs."""
        with self._store.reading() as connection:
            row = _row(connection, name)
            if row is None:
                return None
            return LeaseState(row[0], row[1], max(0, row[3] - self._now_ms(connection)))

    def check(self, connection: sqlite3.Connection, lease: Lease, now_ms: int) -> None:
        """Raises `FencedError` unless the lease is held and has time left."""
        row = _row(connection, lease.name)
        if row is None or (row[0], row[1]) != (lease.holder, lease.epoch):
            raise _fenced(lease, row)
        if row[3] == RELEASED:
            raise _released(lease)
        if row[3] <= now_ms:
            raise FencedError(
                f"lease {lease.name} of {lease.holder} ran out {now_ms - row[3]} ms ago: the "
                "process was paused or too slow; it must stop and start again"
            )


def _released(lease: Lease) -> FencedError:
    return FencedError(f"lease {lease.name} was released by {lease.holder}: acquire it again")


def _row(connection: sqlite3.Connection, name: str) -> Row | None:
    query = "SELECT holder, epoch, ttl_ms, expires_ms FROM leases WHERE name = ?"
    row: Row | None = connection.execute(query, (name,)).fetchone()
    return row


def _fenced(lease: Lease, row: Row | None) -> FencedError:
    holder = "nobody" if row is None else f"{row[0]} (epoch {row[1]})"
    return FencedError(
        f"lease {lease.name} was taken from {lease.holder} (epoch {lease.epoch}) by {holder}: "
        "another controller is the writer now"
    )
