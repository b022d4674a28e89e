"""What the Kafka client logs: heard while it connects, and passed on to our own log afterwards.

The client of kafka-python says only "unable to bootstrap" in its errors; why, it says in its log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

CLIENT = logging.getLogger("kafka")
REPEAT_S = 10.0  # of one kind of line; a client that cannot connect says so many times a second
HEARD_MAX = 100


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collects what the client complains of meanwhile, errors' own texts included."""
    said: list[str] = []
    listener = _Listener(said)
    CLIENT.addHandler(listener)
    try:
        yield said
    finally:
        CLIENT.removeHandler(listener)


def forward() -> None:
    """From now on warnings of the client are lines of our log, each kind once in a while."""
    if not any(isinstance(one, _Forwarder) for one in CLIENT.handlers):
        CLIENT.addHandler(_Forwarder())
    CLIENT.propagate = False


def be_silent() -> None:
    """For commands that end with a sentence: the client's own lines are not printed besides."""
    CLIENT.addHandler(logging.NullHandler())


def _text(record: logging.LogRecord) -> str:
    text = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    return text if error is None else f"{text}: {error}"


class _Listener(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(_text(record))
        del self._said[:-HEARD_MAX]


class _Forwarder(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._log = structlog.get_logger("kafka")
        self._last: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._last.get(str(record.msg), -REPEAT_S) < REPEAT_S:
            return
        self._last[str(record.msg)] = now
        self._log.log(record.levelno, _text(record), client=record.name)
