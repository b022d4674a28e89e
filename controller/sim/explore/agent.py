"""One broker with its agent: the production core, what its runtime holds, and what is served.

Each function takes an `Agent` and returns the next one; nothing is changed in place. The state is
normalised: its clock always shows `AGENT_NOW_MS`, so that time passing moves all times into the
past. What is left out of it decides nothing here: totals, the number of the last report, and
whether the next sign of life must be a report, because reports and heartbeats are one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from controller.agent import core, events, state
from controller.agent.state import AgentState, Counts, new_state
from controller.channel.table import serving_broker
from controller.sim.chaos.judge import Violation
from controller.sim.explore.records import Rec, Sign, of_data, to_event
from controller.sim.explore.times import (
    AGENT,
    AGENT_AGE_MAX,
    AGENT_NOW_MS,
    CLOSE_MAX,
    CLUSTER,
    UNIT_MS,
)

_OLDEST_MS = AGENT_NOW_MS - AGENT_AGE_MAX * UNIT_MS

# How each field of the agent's state is normalised. A field that is missing here ends the
# exploration before it begins: nothing may be left out of the state by accident.
_KEPT = {
    *("table", "phases", "published", "splits", "transfers"),
    *("is_caught_up", "is_fenced", "status"),
}
_PAST = {"read_ms", "heard_ms"}  # compared with "now" less some timeout
_DUE = {"heartbeat_due_ms", "report_due_ms", "jittery_until_ms"}  # compared with "now" itself
_PAST_BY_BUNDLE = {"in_flight_ms"}
_DUE_BY_BUNDLE = {"wait_until_ms", "grace_until_ms"}
_PAIR = {"heard_wait"}
_BY_BUNDLE = tuple(sorted(_PAST_BY_BUNDLE | _DUE_BY_BUNDLE))
_CONSTANT = {"cluster", "broker"}
_LEFT_OUT = {"sequence", "counts", "is_report_forced"}


class Close(NamedTuple):
    """A graceful close that runs."""

    bundle: str
    age: int = 0  # units
    is_hung: bool = False


class Trouble(StrEnum):
    """What keeps a process from its work, for as long as it likes."""

    NONE = ""
    PAUSED = "paused"  # it does nothing
    MUTE = "mute"  # nothing that it appends gets through
    DEAF = "deaf"  # it cannot read


@dataclass(frozen=True, slots=True)
class Agent:
    """See the module text."""

    core: AgentState
    served: frozenset[str] = frozenset()  # what the broker has open
    is_shut: bool = False  # the broker is fenced
    closes: tuple[Close, ...] = ()  # that run
    outbox: tuple[Rec, ...] = ()
    sign: Sign | None = None  # waits in the outbox too
    is_new: bool = True  # has read nothing since its process began
    trouble: Trouble = Trouble.NONE


def new_agent(broker: str) -> Agent:
    """A process that has just begun."""
    return Agent(new_state(CLUSTER, broker))


def serves(agent: Agent) -> frozenset[str]:
    """What clients can use at this moment."""
    may = not agent.is_shut and state.may_serve(agent.core, AGENT_NOW_MS, AGENT)
    return agent.served if may else frozenset()


def check_own_word(agent: Agent) -> None:
    """Raises if the broker serves what its own copy of the channel does not give to it."""
    for bundle in sorted(serves(agent)):
        record = agent.core.table.get(bundle)
        if record is None or serving_broker(record) != agent.core.broker:
            raise Violation(f"{agent.core.broker} serves {bundle} by {record}")


def key_of(agent: Agent) -> Hashable:
    """What tells two agents apart."""
    its = agent.core
    return (
        its.broker,
        tuple(sorted(of_data(key, data) for key, data in its.table.items())),
        *(_items(getattr(its, name)) for name in ("phases", "published", *_BY_BUNDLE)),
        tuple(sorted((k, w.children, w.tries, w.is_done) for k, w in its.splits.items())),
        tuple(sorted(its.transfers)),
        (its.read_ms, its.heard_ms, its.heard_wait, its.is_caught_up, its.is_fenced, its.status),
        (its.heartbeat_due_ms, its.report_due_ms, its.jittery_until_ms),
        (agent.served, agent.is_shut, agent.closes, agent.outbox, agent.sign),
        (agent.is_new, agent.trouble),
    )


def read(agent: Agent, records: tuple[Rec, ...]) -> Agent:
    """A turn of the runtime whose poll brings these records and reaches the channel's end."""
    run = _Run(agent)
    run.feed(events.Timer())
    run.feed(events.Polled(tuple(map(to_event, records)), AGENT_NOW_MS))
    return run.end(is_new=False)


def begin_flush(agent: Agent) -> Agent:
    """The beginning of a turn without a poll; then the outbox is appended, or is not."""
    run = _Run(agent)
    run.feed(events.Timer())
    return run.end()


def flushed(agent: Agent) -> Agent:
    """The append of the whole outbox was acknowledged."""
    run = _Run(replace(agent, outbox=(), sign=None))
    if agent.sign is not None:
        run.feed(events.Heard(AGENT_NOW_MS))
    return run.end()


def flush_failed(agent: Agent) -> Agent:
    """The append was reported as failed: records wait, the sign of life is lost."""
    run = _Run(replace(agent, sign=None))
    run.feed(events.TransportFailed())
    return run.end()


def poll_failed(agent: Agent) -> Agent:
    """A turn of the runtime whose poll fails."""
    run = _Run(agent)
    run.feed(events.Timer())
    run.feed(events.TransportFailed())
    return run.end()


def close_ended(agent: Agent, bundle: str, error: str | None = None) -> Agent:
    """A graceful close has ended, well or with an error."""
    run = _Run(replace(agent, closes=tuple(c for c in agent.closes if c.bundle != bundle)))
    if error is None:
        run.served.discard(bundle)
    run.feed(events.Released(bundle, error))
    return run.end()


def is_idle(agent: Agent, has_unread: bool) -> bool:
    """True if all is done that an agent in this trouble can do; only then time passes.

    A graceful close may last into the next unit, one that hangs for `CLOSE_MAX` units.
    """
    if agent.trouble is Trouble.PAUSED or agent.is_new:
        return True
    is_read = agent.trouble is Trouble.DEAF or not has_unread
    is_written = agent.trouble is Trouble.MUTE or not (agent.outbox or agent.sign)
    is_closing = all(c.age < (CLOSE_MAX if c.is_hung else 1) for c in agent.closes)
    return is_read and is_written and is_closing


def hung(agent: Agent, bundle: str) -> Agent:
    """A close hangs."""
    closes = tuple(c._replace(is_hung=c.is_hung or c.bundle == bundle) for c in agent.closes)
    return replace(agent, closes=closes)


def aged(agent: Agent) -> Agent:
    """One unit later."""
    its = agent.core
    changes: dict[str, Any] = {name: _older(getattr(its, name), _OLDEST_MS) for name in _PAST}
    changes |= {name: _older(getattr(its, name), AGENT_NOW_MS) for name in _DUE}
    for name in _BY_BUNDLE:
        limit_ms = AGENT_NOW_MS if name in _DUE_BY_BUNDLE else _OLDEST_MS
        changes[name] = {k: _older(at, limit_ms) for k, at in getattr(its, name).items()}
    if its.heard_wait is not None:
        changes["heard_wait"] = tuple(_older(at, _OLDEST_MS) for at in its.heard_wait)
    later = replace(its, **changes)
    return replace(
        agent,
        core=later,
        closes=tuple(c._replace(age=min(c.age + 1, CLOSE_MAX)) for c in agent.closes),
    )


def _older(at_ms: int | None, oldest_ms: int) -> int | None:
    return None if at_ms is None else max(at_ms - UNIT_MS, oldest_ms)


def _items(mapping: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(mapping.items()))


class _Run:
    """What a runtime and a faultless broker do with the core's actions, as `AgentRuntime` does."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._core = agent.core
        self.served = set(agent.served)
        self._is_shut = agent.is_shut
        self._closes = list(agent.closes)
        self._outbox = list(agent.outbox)
        self._sign = agent.sign
        self._ended: deque[events.Event] = deque()

    def feed(self, event: events.Event) -> None:
        """One event, and the ends of all operations that it began and that end at once."""
        self._ended.append(event)
        while self._ended:
            next_event = self._ended.popleft()
            self._core, actions = core.handle(self._core, next_event, AGENT_NOW_MS, AGENT)
            for action in actions:
                self._execute(action)

    def _execute(self, action: events.Action) -> None:
        match action:
            case events.Publish(key, record):
                self._outbox.append(of_data(key, record))
            case events.Acquire(bundle):
                self._acquire(bundle)
            case events.Split(bundle, children):
                self._split(bundle, children)
            case events.Release(bundle):
                self._closes.append(Close(bundle))
            case events.Drop(bundle):
                self.served.discard(bundle)
            case events.Fence():
                self._is_shut, self._outbox, self._sign = True, [], None
                self.served.clear()
            case events.Unfence():
                self._is_shut = False
            case events.SendReport() | events.SendHeartbeat():
                self._sign = Sign(self._core.broker, action.status, action.transport)
            case events.Redirect():
                pass  # only helps clients

    def _acquire(self, bundle: str) -> None:
        if not self._is_shut:
            self.served.add(bundle)
        self._ended.append(events.Acquired(bundle, "fenced" if self._is_shut else None))

    def _split(self, bundle: str, children: tuple[str, ...]) -> None:
        """The boundaries hold the bundle, or the same children already: it cannot fail."""
        if not self._is_shut and bundle in self.served:
            self.served.remove(bundle)
            self.served.update(children)
        self._ended.append(events.SplitDone(bundle, "fenced" if self._is_shut else None))

    def end(self, **changes: Any) -> Agent:
        """The agent afterwards, normalised."""
        return replace(
            self._agent,
            core=replace(self._core, sequence=0, counts=Counts(), is_report_forced=False),
            served=frozenset(self.served),
            is_shut=self._is_shut,
            closes=tuple(sorted(self._closes)),
            outbox=tuple(self._outbox),
            sign=self._sign,
            **changes,
        )


def check_fields() -> None:
    """Raises if the agent's state has a field of which this module does not know."""
    known = _KEPT | _PAST | _DUE | {*_BY_BUNDLE} | _PAIR | _CONSTANT | _LEFT_OUT
    unknown = {one.name for one in fields(AgentState)} ^ known
    if unknown:
        raise LookupError(f"say how these fields of AgentState are normalised: {sorted(unknown)}")
