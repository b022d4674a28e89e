"""Who owns a bundle, for the broker's own lookups: answered from the agent's fold of the channel.

Safe from any thread. A question about a bundle that nobody owns becomes one `assign` command;
the answer is the channel's next record, so it costs one round trip through the controller.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.agent.state import AgentState
from controller.channel.lookup import Answer, Deferred, Empty, Failed, Owner, lookup
from controller.model.bundles import split_name

QUESTIONS_MAX = 1_000
"""Bundles waiting for the loop, which takes all of them every poll; more is no honest load."""


class NoOwnerError(Exception):
    """The owner of a bundle could not be told: `why` is deleted, overdue or refused."""

    def __init__(self, bundle: str, why: str) -> None:
        super().__init__(f"{bundle}: {_EXPLAINED.get(why, why)}")
        self.bundle = bundle
        self.why = why


_EXPLAINED = {
    "deleted": "was split; look its children up",
    "overdue": "no owner became known in time; try again",
    "refused": "too many questions wait to be sent; try again later",
}


@dataclass(slots=True)
class Lookups:
    """Answers questions of other threads; the agent's loop calls `news` when its table changed.

    `state` gives the agent's state at this moment; `wake` has the loop look soon for bundles that
    are to be assigned.
    """

    state: Callable[[], AgentState]
    wake: Callable[[], None]
    _unowned: queue.Queue[str] = field(default_factory=lambda: queue.Queue(QUESTIONS_MAX))
    _news: threading.Condition = field(default_factory=threading.Condition)

    def news(self) -> None:
        """Wakes those who wait."""
        with self._news:
            self._news.notify_all()

    def take_unowned(self) -> list[str]:
        """Bundles for which the loop is to send an `assign` command."""
        return [self._unowned.get_nowait() for _ in range(self._unowned.qsize())]

    def lookup(self, bundle: str) -> Answer:
        """The answer at this moment; raises `BundleNameError` for what is no bundle's name.

        Nothing is known here about which brokers are registered. Before the channel was read to
        its end a missing record means nothing, so the answer is deferred.
        """
        split_name(bundle)
        state = self.state()
        answer = lookup(state.table.get(bundle), state.broker, None)
        if isinstance(answer, Empty) and not state.is_caught_up:
            return Deferred("nobody", None)
        return answer

    def owner_of(self, bundle: str, timeout_s: float) -> str:
        """The owner, waiting for one if there is none; raises `NoOwnerError`."""
        end_s = time.monotonic() + timeout_s
        has_asked = False
        with self._news:
            while True:
                answer = self.lookup(bundle)
                if isinstance(answer, Owner):
                    return answer.broker
                if isinstance(answer, Failed):
                    raise NoOwnerError(bundle, answer.why)
                if isinstance(answer, Empty) and not has_asked:
                    has_asked = True
                    self._ask(bundle)
                rest_s = end_s - time.monotonic()
                if rest_s <= 0:
                    raise NoOwnerError(bundle, "overdue")
                self._news.wait(rest_s)

    def _ask(self, bundle: str) -> None:
        try:
            self._unowned.put_nowait(bundle)
        except queue.Full:
            raise NoOwnerError(bundle, "refused") from None
        self.wake()
