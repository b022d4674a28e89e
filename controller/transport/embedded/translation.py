"""SQLite's errors as ours: which file, why, what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from controller.transport.errors import (
    BusyError,
    CorruptError,
    DiskFullError,
    NotWritableError,
    TransportError,
)

_DAMAGED = (
    "{path} is damaged: restore it from a copy, or move it away and let brokers and controller "
    "start a new one"
)

_SENTENCES: tuple[tuple[str, type[TransportError], str], ...] = (
    (
        "SQLITE_BUSY",
        BusyError,
        "{path} stayed locked by other processes for {waited_ms} ms: look for one that hangs",
    ),
    ("SQLITE_LOCKED", BusyError, "{path} stayed locked for {waited_ms} ms: try again"),
    (
        "SQLITE_FULL",
        DiskFullError,
        "no room to write to {path}: nothing was written; make room on its disk",
    ),
    ("SQLITE_IOERR_SHORT_READ", CorruptError, _DAMAGED),
    ("SQLITE_IOERR_CORRUPTFS", CorruptError, _DAMAGED),
    (
        "SQLITE_IOERR",
        DiskFullError,
        "the disk under {path} refused a read or write (full or failing, {name}): nothing was "
        "written; check its free space and health",
    ),
    ("SQLITE_NOTADB", CorruptError, "{path} is not a log: give another path"),
    ("SQLITE_CORRUPT", CorruptError, _DAMAGED),
    (
        "SQLITE_READONLY",
        NotWritableError,
        "{path} cannot be written: check the owner and mode of the file and its folder",
    ),
    (
        "SQLITE_CANTOPEN",
        NotWritableError,
        "{path} cannot be opened: check that it is a file, that its folder may be written, and "
        "that the disk has room",
    ),
    (
        "SQLITE_PERM",
        NotWritableError,
        "{path} cannot be opened: check the owner and mode of the file and its folder",
    ),
)


def translated(error: sqlite3.Error, path: Path, waited_ms: int) -> TransportError:
    """Our error for one of SQLite's; the first sentence that matches its name."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if not name and "decode to UTF-8" in str(error):
        name = "SQLITE_CORRUPT"  # found by Python's driver, which has no name for it
    for prefix, kind, sentence in _SENTENCES:
        if name.startswith(prefix):
            return kind(sentence.format(path=path, waited_ms=waited_ms, name=name))
    return TransportError(f"{path}: {error}")
