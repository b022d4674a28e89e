"""Files that are full, torn, foreign or gone: real ones, no stand-ins."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from controller.transport.embedded import EmbeddedLog
from controller.transport.embedded.maintenance import verify
from controller.transport.errors import (
    BusyError,
    CorruptError,
    DiskFullError,
    NotWritableError,
    SchemaError,
)
from tests.transport.contract import out

PAGE = 4_096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed log with 200 records of 1 KB."""
    path = tmp_path / "log.db"
    log = EmbeddedLog(path)
    log.create_topic("t", 1)
    log.append([out(f"k{i}", b"x" * 1_000) for i in range(200)])
    log.close()
    return path


def test_full_disk_loses_nothing_and_works_again_with_room(path: Path) -> None:
    log = EmbeddedLog(path)
    with log.store.using() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone()
    acknowledged = 200
    with pytest.raises(DiskFullError, match=r"log\.db.*make room"):
        while True:
            log.append([out("a", b"y" * 1_000) for _ in range(10)])
            acknowledged += 10
    assert log.end_offsets("t") == {0: acknowledged}
    assert len(log.read("t", 0, 0, 9_999)) == acknowledged
    with log.store.using() as connection:
        connection.execute("PRAGMA max_page_count = 1000000").fetchone()
    assert log.append([out("a")]) == [(0, acknowledged)]
    verify(log)


@pytest.mark.parametrize("junk", [b"x", b"not a log" * 50, os.urandom(20_000)])
def test_a_file_of_something_else(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "log.db").write_bytes(junk)
    with pytest.raises(CorruptError, match=r"log\.db is not a log: give another path"):
        EmbeddedLog(tmp_path / "log.db")
    assert (tmp_path / "log.db").read_bytes() == junk


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "log.db") as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(CorruptError, match="another program"):
        EmbeddedLog(tmp_path / "log.db")
    assert (tmp_path / "log.db").read_bytes() == before


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_truncated_file(path: Path, keep: float) -> None:
    os.truncate(path, int(path.stat().st_size * keep) // PAGE * PAGE)
    with pytest.raises(CorruptError, match=r"log\.db is damaged"):
        log = EmbeddedLog(path)
        log.read("t", 0, 0, 999)
        verify(log)


def test_every_overwritten_page_is_found(path: Path) -> None:
    good = path.read_bytes()
    for start in range(0, len(good), PAGE):
        path.write_bytes(good[:start] + b"\xa5" * PAGE + good[start + PAGE :])
        with pytest.raises(CorruptError, match=r"log\.db"):
            log = EmbeddedLog(path)
            try:
                verify(log)
            finally:
                log.close()


def test_a_file_of_a_newer_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaError, match=r"log\.db has version 99.*upgrade"):
        EmbeddedLog(path)


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(NotWritableError, match="check that it is a file"):
        EmbeddedLog(tmp_path)


def test_a_file_instead_of_the_folder(path: Path) -> None:
    with pytest.raises(NotWritableError, match="cannot make the folder"):
        EmbeddedLog(path / "below" / "log.db")


def test_a_connection_that_may_only_read(path: Path) -> None:
    log = EmbeddedLog(path)
    with log.store.using() as connection:
        connection.execute("PRAGMA query_only = ON")
    with pytest.raises(NotWritableError, match="owner and mode"):
        log.append([out("a")])
    assert log.end_offsets("t") == {0: 200}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_taken_away_is_not_written_on(path: Path, is_replaced: bool) -> None:
    log = EmbeddedLog(path)
    log.append([out("a")])
    path.rename(path.with_suffix(".old"))
    if is_replaced:
        EmbeddedLog(path).close()
    with pytest.raises(CorruptError, match="moved, removed or replaced"):
        log.append([out("a")])
    assert path.exists() == is_replaced


def test_a_lock_that_stays_is_an_error_after_the_wait(path: Path) -> None:
    log = EmbeddedLog(path, busy_wait_ms=20)
    hanging = sqlite3.connect(path, isolation_level=None)
    hanging.execute("BEGIN IMMEDIATE")
    with pytest.raises(BusyError, match="stayed locked by other processes"):
        log.append([out("a")])
    hanging.close()
    assert log.append([out("a")]) == [(0, 200)]
