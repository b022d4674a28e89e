"""Carries out on the broker what the core orders: the one place that calls the port's methods.

Rules: an operation's end becomes an event in `done`, whatever happens; the broker's errors never
reach the loop. What ends service must succeed: a drop that fails becomes a fence, and a fence
that fails is tried again before anything else is done.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from controller.agent import events as ev
from controller.agent.port import BoundariesChangedError, Broker
from controller.agent.watchdog import LeaseWatchdog

_log = structlog.get_logger("controller.agent")


class Pool(Protocol):
    """Runs releases beside the loop: a `ThreadPoolExecutor`, or a simulation's."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Has the function called."""


class Hands:
    """See the module text; used by the loop's thread, but for the releases in the pool."""

    def __init__(
        self, port: Broker, done: queue.SimpleQueue[ev.Event], pool: Pool, watchdog: LeaseWatchdog
    ) -> None:
        self.errors = 0  # of drop, redirect, fence and unfence
        self.must_fence = False  # a fence has failed: the broker may be serving against the rules
        self._port = port
        self._done = done
        self._pool = pool
        self._watchdog = watchdog

    def acquire(self, bundle: str) -> None:
        """Answered by `Acquired`."""
        self._done.put(ev.Acquired(bundle, _text(self._try(self._port.acquire, bundle))))

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        """Answered by `SplitDone`."""
        error = self._try(self._port.split, bundle, children)
        is_conflict = isinstance(error, BoundariesChangedError)
        self._done.put(ev.SplitDone(bundle, _text(error), is_conflict))

    def release(self, bundle: str, destination: str | None) -> None:
        """In the pool; answered by `Released`."""
        self._pool.submit(self._release, bundle, destination)

    def _release(self, bundle: str, destination: str | None) -> None:
        error = self._try(self._port.release, bundle, destination)
        self._done.put(ev.Released(bundle, _text(error)))

    def drop(self, bundle: str) -> None:
        """A bundle that cannot be dropped alone is dropped with all others."""
        if not self._is_done("drop", self._try(self._port.drop, bundle)):
            self.fence()
            self._done.put(ev.LeaseLost())

    def redirect(self, bundle: str, owner: str | None) -> None:
        """Only helps clients: a failure is noted and no more."""
        self._is_done("redirect", self._try(self._port.redirect, bundle, owner))

    def fence(self) -> bool:
        """True if the broker serves nothing now; else to be called again, and the core told."""
        self.must_fence = not self._is_done("fence", self._try(self._port.fence))
        if self.must_fence:
            self._done.put(ev.LeaseLost())
        return not self.must_fence

    def unfence(self) -> None:
        """Not after a fence that failed, nor if the watchdog has fenced since the core decided."""
        if self.must_fence:
            return
        if not self._is_done("unfence", self._try(self._watchdog.guarded, self._port.unfence)):
            self._done.put(ev.LeaseLost())

    def _is_done(self, what: str, error: Exception | None) -> bool:
        if error is not None:
            self.errors += 1
            _log.warning(f"{what} of the broker failed", error=repr(error))
        return error is None

    def _try(self, operation: Callable[..., Any], *arguments: object) -> Exception | None:
        """Runs an operation of the port; its error, None if it went well."""
        try:
            operation(*arguments)
        except Exception as error:  # the port's own code: anything may come
            return error
        return None


def _text(error: Exception | None) -> str | None:
    return None if error is None else repr(error)
