"""Boundaries of namespaces, changed by compare-and-set: what Pulsar keeps in its metadata store.

Rules: a version grows by one with every change; who changes must name the version that was read,
so that of two who split at the same time one is told. Shared by all simulated brokers of a
cluster; a real broker uses its own store.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from controller.agent.port import BoundariesChangedError, BrokerError
from controller.model.bundles import split_name

Edges = tuple[int, ...]
"""Boundaries in order, the first and the last included: one more than there are bundles."""

BUSY_WAIT_S = 0.1
"""A broker that splits holds up its agent's loop meanwhile, so it gives up soon."""

_TABLE = """
CREATE TABLE IF NOT EXISTS boundaries (
    namespace TEXT PRIMARY KEY, version INTEGER NOT NULL, edges TEXT NOT NULL
) WITHOUT ROWID
"""


class Boundaries(Protocol):
    """A store of boundaries; raises `BrokerError` if it cannot be reached."""

    def read(self, namespace: str) -> tuple[int, Edges] | None:
        """Version and boundaries; None for a namespace that nobody has created."""

    def compare_and_set(self, namespace: str, expected_version: int, edges: Edges) -> bool:
        """Sets the boundaries if their version still is the expected one; 0 = they do not exist."""


@dataclass(slots=True)
class MemoryBoundaries:
    """In memory, for brokers of one process; safe for several threads."""

    _held: dict[str, tuple[int, Edges]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, namespace: str) -> tuple[int, Edges] | None:
        """See `Boundaries.read`."""
        return self._held.get(namespace)

    def compare_and_set(self, namespace: str, expected_version: int, edges: Edges) -> bool:
        """See `Boundaries.compare_and_set`."""
        with self._lock:
            if self._held.get(namespace, (0, ()))[0] != expected_version:
                return False
            self._held[namespace] = (expected_version + 1, edges)
            return True


class FileBoundaries:
    """In a SQLite file, for brokers of several processes; safe for several threads."""

    def __init__(self, path: Path, busy_wait_s: float = BUSY_WAIT_S) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._busy_wait_s = busy_wait_s
        with self._connected() as connection:
            connection.execute(_TABLE)

    def read(self, namespace: str) -> tuple[int, Edges] | None:
        """See `Boundaries.read`."""
        query = "SELECT version, edges FROM boundaries WHERE namespace = ?"
        with self._connected() as connection:
            row = connection.execute(query, (namespace,)).fetchone()
        return None if row is None else (row[0], tuple(int(edge) for edge in row[1].split()))

    def compare_and_set(self, namespace: str, expected_version: int, edges: Edges) -> bool:
        """See `Boundaries.compare_and_set`."""
        text = " ".join(map(str, edges))
        if expected_version == 0:
            change = "INSERT INTO boundaries VALUES (?3, 1, ?1) ON CONFLICT DO NOTHING"
        else:
            change = (
                "UPDATE boundaries SET version = version + 1, edges = ?1 "
                "WHERE namespace = ?3 AND version = ?2"
            )
        with self._connected() as connection:
            return connection.execute(change, (text, expected_version, namespace)).rowcount == 1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: splits are rare, and threads must not share one."""
        try:
            connection = sqlite3.connect(self._path, timeout=self._busy_wait_s)
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise BrokerError(f"{self._path}: boundaries cannot be used: {error}") from error


def put_children(boundaries: Boundaries, bundle: str, children: tuple[str, ...]) -> None:
    """Has the boundaries hold the children instead of the bundle; idempotent.

    Raises `BoundariesChangedError` if somebody else was quicker, and `BrokerError` if the
    boundaries hold neither the bundle nor its children.
    """
    namespace, lower, upper = split_name(bundle)
    found = boundaries.read(namespace)
    if found is None:
        raise BrokerError(f"namespace {namespace} has no boundaries; nobody has created it")
    version, edges = found
    wanted = {edge for child in children for edge in split_name(child)[1:]}
    if wanted <= set(edges):
        return  # done before, and perhaps split further since
    if lower not in edges or upper not in edges or any(lower < edge < upper for edge in edges):
        raise BrokerError(f"the boundaries of {namespace} hold neither {bundle} nor its children")
    if not boundaries.compare_and_set(namespace, version, tuple(sorted({*edges, *wanted}))):
        raise BoundariesChangedError(f"the boundaries of {namespace} were changed meanwhile")


def create_namespaces(boundaries: Boundaries, bundles: Iterable[str]) -> None:
    """Creates the namespaces of bundles that cover them; leaves those alone that exist."""
    edges: dict[str, set[int]] = {}
    for bundle in bundles:
        namespace, lower, upper = split_name(bundle)
        edges.setdefault(namespace, set()).update((lower, upper))
    for namespace, found in sorted(edges.items()):
        boundaries.compare_and_set(namespace, 0, tuple(sorted(found)))
