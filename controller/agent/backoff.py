"""Bounded back-off after transport errors: the pause doubles from a least to a greatest one."""

from __future__ import annotations

from dataclasses import dataclass

DOUBLINGS_MAX = 16
"""Enough to reach any sensible bound; keeps the power of two small."""


@dataclass(slots=True)
class Backoff:
    """When something may be tried next; one for each thing that can fail by itself."""

    least_ms: int
    greatest_ms: int
    due_ms: int
    _errors_in_a_row: int = 0

    def is_due(self, now_ms: int) -> bool:
        """True when it may be tried."""
        return now_ms >= self.due_ms

    def succeeded(self, next_ms: int) -> None:
        """It went well; to be tried again from `next_ms` on."""
        self._errors_in_a_row = 0
        self.due_ms = next_ms

    def failed(self, now_ms: int) -> int:
        """It failed; returns the pause in ms."""
        doublings = min(self._errors_in_a_row, DOUBLINGS_MAX)
        self._errors_in_a_row += 1
        pause_ms = min(self.least_ms << doublings, self.greatest_ms)
        self.due_ms = now_ms + pause_ms
        return pause_ms
