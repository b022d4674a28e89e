"""Watchdog of the lease: fences the broker when the agent's loop is stuck.

The core fences by itself at its next event; this thread only covers the time in which the loop
hangs, in the transport or in the broker, and no event can come. It knows nothing but one
deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SLEEP_MAX_MS = 100
"""The thread sleeps until the deadline, but not longer than this: its sleep is not counted while
the machine is suspended, the lease is, so after a resume the fence may be so late."""


class LeaseWatchdog:
    """Calls `fence` when the deadline passes, until it succeeds; `watch` sets a new deadline."""

    def __init__(self, fence: Callable[[], None], clock: Callable[[], int]) -> None:
        self._fence = fence
        self._clock = clock
        self._deadline_ms: int | None = None
        self._wakes_ms = 0
        self._has_fired = False
        self._is_stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name="lease-watchdog", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; a fence that has begun is finished first."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def deadline_ms(self) -> int | None:
        """The deadline that is watched."""
        return self._deadline_ms

    def watch(self, deadline_ms: int | None) -> None:
        """Serving is allowed up to `deadline_ms`; None = nothing to watch."""
        with self._changed:
            self._deadline_ms = deadline_ms
            if deadline_ms is not None and deadline_ms < self._wakes_ms:
                self._changed.notify()

    def check(self) -> bool:
        """Fences if the deadline has passed; True if it did so."""
        with self._changed:
            if self._deadline_ms is None or self._clock() <= self._deadline_ms:
                return False
            self._has_fired = True
            try:
                self._fence()
            except Exception:  # the broker's own code; the deadline stays, so it is tried again
                return False
            self._deadline_ms = None
            return True

    def guarded(self, operation: Callable[[], None]) -> None:
        """Runs an operation that no fence may come into the middle of, unless one came before."""
        with self._changed:
            if not self._has_fired:
                operation()

    def take_fired(self) -> bool:
        """True once after each fence: the core must hear of it, however short the delay was."""
        with self._changed:
            fired, self._has_fired = self._has_fired, False
            return fired

    def _loop(self) -> None:
        while not self._is_stopped:
            self.check()
            with self._changed:
                if not self._is_stopped:
                    self._changed.wait(self._rest_ms() / 1_000)

    def _rest_ms(self) -> int:
        """Until just after the deadline: at it, serving is still allowed."""
        now_ms = self._clock()
        rest_ms = SLEEP_MAX_MS
        if self._deadline_ms is not None:
            rest_ms = min(max(self._deadline_ms + 1 - now_ms, 1), SLEEP_MAX_MS)
        self._wakes_ms = now_ms + rest_ms
        return rest_ms
