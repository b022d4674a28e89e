"""A broker's own log of what it serves: one JSON object per line, appended and flushed at once.

Lines: `{"ms": wall ms, "broker": ..., "event": ..., "bundle"?: ..., "load_ratio"?: ...}`, events
start, serve, stop, load, fence (all stopped), exit (all stopped). `serve` is written before the
first client is served and `stop` after the last one, so that the log errs towards overlap: an
observer that finds none can be believed. Written by brokers, read by the demo's observer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

EVENTS = ("start", "serve", "stop", "load", "fence", "exit")


class OwnLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line; `ms` with fractions, so that very short overlaps show."""

    ms: float
    broker: str
    event: str
    bundle: str | None = None
    load_ratio: float | None = None


_DECODER = msgspec.json.Decoder(OwnLine)


def wall_ms() -> float:
    """Wall time in ms since 1970, with fractions."""
    return time.time_ns() / 1_000_000


def clock_offset_ms() -> float:
    """What to add to this machine's monotonic time to get ms since 1970, measured now."""
    return wall_ms() - time.monotonic_ns() / 1_000_000


def steady_clock(offset_ms: float) -> Callable[[], float]:
    """Ms since 1970 that no correction of the system's clock disturbs.

    Monotonic time is the same for all processes of a machine, so those that are given the same
    offset share one clock, and the order of their lines can be trusted.
    """
    return lambda: time.monotonic_ns() / 1_000_000 + offset_ms


class OwnLog:
    """Appends lines to one file; safe to call from several threads."""

    def __init__(self, path: Path, broker: str, clock: Callable[[], float] = wall_ms) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._broker = broker
        self._clock = clock
        self._lock = threading.Lock()

    def write(self, event: str, bundle: str | None = None, load_ratio: float | None = None) -> None:
        """Appends one line; the line is with the operating system when this returns."""
        with self._lock:
            line = OwnLine(round(self._clock(), 3), self._broker, event, bundle, load_ratio)
            self._file.write(msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """Closes the file; `write` fails afterwards."""
        self._file.close()


def read_own_line(line: bytes) -> OwnLine | None:
    """The line, or None for one that a kill has cut or that is no line of an own log."""
    try:
        own = _DECODER.decode(line)
    except msgspec.MsgspecError:
        return None
    return own if own.event in EVENTS else None
