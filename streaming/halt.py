"""The one switch that ends the job: asked for (signal), or because something failed.

Threads that cannot end the process themselves (lease, ticker, sink) fail it; `streaming.main` waits
on it. The first failure is the one that is told.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Halted(BaseException):
    """A signal asked for a clean stop. No `Exception`: what lies between must not swallow it."""


class Halt:
    """Set once; `failure` is None for a clean stop, else the sentence for the operator."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._is_interrupting = False
        self.failure: str | None = None

    def catch_signals(self) -> None:
        """Makes SIGTERM and Ctrl-C ask for a clean stop; does nothing off the main thread.

        To be called again once Spark's context is up: it takes Ctrl-C for itself.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._on_signal)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While inside, a signal also raises `Halted`: for waits that cannot look at the switch."""
        self._is_interrupting = True
        try:
            if self.is_set():
                raise Halted
            yield
        finally:
            self._is_interrupting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop()
        if self._is_interrupting:
            self._is_interrupting = False  # once: what cleans up must not be interrupted too
            raise Halted

    def stop(self) -> None:
        """Asks for a clean stop. Safe in a signal handler: takes no lock."""
        self._event.set()

    def fail(self, sentence: str) -> None:
        """Asks for a stop with a non-zero exit; the first sentence stays."""
        with self._lock:
            self.failure = self.failure or sentence
        self._event.set()

    def is_set(self) -> bool:
        """True once the job is to end."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits; True if the job is to end."""
        return self._event.wait(seconds)
