"""Simulated time: a queue of events, and processes that can be killed, paused and started again.

Rules: events happen in the order of their time, then of their making; an event of a process that
was killed meanwhile is lost; that of a paused one happens when the process wakes up. `after_event`
is called after each event that happened.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

TRACE_MAX = 200_000  # lines; a run that needs more is not one that anybody reads

Action = Callable[[], object]


class Kernel:
    """The clock of one run, its generator, and its trace. Times are milliseconds from 0 on."""

    def __init__(self, seed: int, *, is_tracing: bool = False) -> None:
        self.now_ms = 0
        self.random = random.Random(seed)
        self.steps = 0
        self.trace: list[str] | None = [] if is_tracing else None
        self.after_event: Callable[[], None] = lambda: None
        self._made = 0
        self._queue: list[tuple[int, int, Action]] = []

    def at(self, at_ms: int, action: Action) -> None:
        """Has `action` happen at a time, at once if that is over."""
        self._made += 1
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), self._made, action))

    def later(self, delay_ms: int, action: Action) -> None:
        """Has `action` happen after a delay."""
        self.at(self.now_ms + delay_ms, action)

    def every(self, interval_ms: int, action: Action) -> None:
        """Has `action` happen again and again, first after one interval."""

        def again() -> None:
            action()
            self.later(interval_ms, again)

        self.later(interval_ms, again)

    def run(self, until_ms: int) -> None:
        """Lets time pass until `until_ms`."""
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._queue)
            self.now_ms = at_ms
            if action() is not SKIPPED:
                self.steps += 1
                self.after_event()
        self.now_ms = until_ms

    def tell(self, who: str, what: str) -> None:
        """Adds a line to the trace, if one is kept."""
        if self.trace is not None and len(self.trace) < TRACE_MAX:
            self.trace.append(f"{self.now_ms / 1_000:9.3f} {who:<12} {what}")

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return probability > 0.0 and self.random.random() < probability


SKIPPED = object()
"""What an event returns that did not happen: its process was killed or is paused."""


@dataclass(slots=True)
class Process:
    """Something that runs, can be killed and paused. Subclasses bring `boot` and `halt`."""

    kernel: Kernel
    name: str
    is_up: bool = False
    wakes_ms: int = 0
    incarnation: int = 0
    drift: float = 0.0  # its clock runs so much faster than the log's

    def start(self) -> None:
        """Starts the process; does nothing while it runs."""
        if not self.is_up:
            self.is_up = True
            self.incarnation += 1
            self.wakes_ms = 0
            self.kernel.tell(self.name, "starts")
            self.boot()

    def kill(self) -> None:
        """Ends the process at once; all that it held in memory is lost."""
        if self.is_up:
            self.is_up = False
            self.incarnation += 1
            self.kernel.tell(self.name, "killed")
            self.halt()

    def pause(self, duration_ms: int) -> None:
        """Stops the process for a while (a long collection of garbage, SIGSTOP)."""
        if self.is_up:
            self.wakes_ms = max(self.wakes_ms, self.kernel.now_ms + duration_ms)
            self.kernel.tell(self.name, f"pauses for {duration_ms} ms")

    @property
    def is_running(self) -> bool:
        """True if it is up and not paused."""
        return self.is_up and self.kernel.now_ms >= self.wakes_ms

    def clock_ms(self) -> int:
        """Monotonic time of this process: its own rate, counted on while it is paused."""
        return round(self.kernel.now_ms * (1.0 + self.drift))

    def soon(self, delay_ms: int, action: Action) -> None:
        """Has `action` happen in this process, unless it is killed before."""
        incarnation = self.incarnation

        def guarded() -> object:
            if self.incarnation != incarnation or not self.is_up:
                return SKIPPED
            if not self.is_running:
                self.kernel.at(self.wakes_ms, guarded)
                return SKIPPED
            return action()

        self.kernel.later(delay_ms, guarded)

    def boot(self) -> None:
        """What happens at a start."""

    def halt(self) -> None:
        """What happens at a kill."""
