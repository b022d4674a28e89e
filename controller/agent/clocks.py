"""The clocks an agent runs on."""

from __future__ import annotations

import time


def lease_clock_ms() -> int:
    """Monotonic ms that go on while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def wall_clock_ms() -> int:
    """Wall time, ms since 1970."""
    return time.time_ns() // 1_000_000
