"""Whether the job has read its log up to the end: ticks wait for it where they pace the rounds.

On Kafka a batch that catches up may bring later records of one partition than of another. A tick
that was appended after everything before it was read cannot be among them: when it is read, so is
all that came before it. Fed by `streaming.listener`, asked by `streaming.ticker`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

IDLE = ("Waiting for next trigger", "Waiting for data to arrive")
"""What Spark says of a query that looked for records and found none (MicroBatchExecution)."""


class Pace:
    """The lag of the last batch. Thread safe: the listener tells, the ticker asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lag: int | None = None  # records, as Spark planned the last batch
        self.status: Callable[[], Mapping[str, Any]] | None = None  # of the query, once it runs

    def saw(self, lag: int) -> None:
        """A batch is done that left so many records unread when it was planned."""
        with self._lock:
            self._lag = lag

    def is_caught_up(self) -> bool:
        """True if the last batch read all that was there, or if there was nothing to read."""
        with self._lock:
            lag = self._lag
        if lag is not None:
            return lag == 0
        if self.status is None:
            return False
        status = self.status()
        return status["message"] in IDLE and not status["isDataAvailable"]
