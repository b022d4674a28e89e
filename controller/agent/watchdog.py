"""Watchdog of the lease: fences the broker when the agent's loop is stuck.

The core fences by itself at the next timer event; this thread only covers the time in which the
loop hangs in the transport and no event can come. It knows nothing but one deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

CHECKS_PER_LEASE = 50
"""A late fence eats into the safety margin of the take-over time: 2 % of the lease at most."""

CHECK_INTERVAL_MIN_MS = 5
"""Keeps very short leases (tests) from spinning."""


class LeaseWatchdog:
    """Calls `fence` once when the deadline passes; `watch` sets a new one."""

    def __init__(self, fence: Callable[[], None], clock: Callable[[], int], lease_ms: int) -> None:
        self._fence = fence
        self._clock = clock
        self._lease_ms = lease_ms
        self._deadline_ms: int | None = None
        self._has_fired = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="lease-watchdog", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; a fence that has begun is finished first."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def watch(self, polled_ms: int | None) -> None:
        """The lease now runs from `polled_ms`; None = nothing to watch."""
        with self._lock:
            self._deadline_ms = None if polled_ms is None else polled_ms + self._lease_ms

    def check(self) -> bool:
        """Fences if the deadline has passed; True if it did so."""
        with self._lock:
            if self._deadline_ms is None or self._clock() <= self._deadline_ms:
                return False
            self._deadline_ms = None
            self._has_fired = True
            self._fence()
            return True

    def take_fired(self) -> bool:
        """True once after each fence: the core must hear of it, however short the delay was."""
        with self._lock:
            fired, self._has_fired = self._has_fired, False
            return fired

    def _loop(self) -> None:
        interval_ms = max(self._lease_ms / CHECKS_PER_LEASE, CHECK_INTERVAL_MIN_MS)
        while not self._stop.wait(interval_ms / 1_000):
            self.check()
