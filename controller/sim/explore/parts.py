"""The parts of the system under numbers, and what happens to each, computed once.

Equal parts have one number, and a method marked `once` is called once for the same arguments: the
production code runs only for what is new. This is what makes exhaustive search affordable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from controller.sim.chaos.judge import Judge
from controller.sim.explore import agent as agents
from controller.sim.explore import channel_log as logs
from controller.sim.explore import leader as leaders
from controller.sim.explore.agent import Agent, Trouble
from controller.sim.explore.channel_log import ChannelLog, Newcomers
from controller.sim.explore.leader import Decided, Leader
from controller.sim.explore.records import Aged, Rec, Sign
from controller.sim.explore.times import BROKERS, CHANNEL, CORE_AGE_MAX, LATE_MAX
from controller.wire.commands import Command

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Inbox(NamedTuple):
    """Signs of life that the leader has not read; and those it has, for a successor."""

    unread: tuple[Sign, ...] = ()
    past: tuple[Sign, ...] = ()


class Budget(NamedTuple):
    """What may still happen on a path."""

    transfers: int
    splits: int
    faults: int
    has_standby: bool


class Pool(Generic[T]):
    """Numbers for values; `key_of` says what makes two of them equal."""

    def __init__(self, key_of: Callable[[T], Hashable]) -> None:
        self.items: list[T] = []
        self._numbers: dict[Hashable, int] = {}
        self._key_of = key_of

    def put(self, item: T) -> int:
        """The number of a value."""
        key = self._key_of(item)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.items)
            self.items.append(item)
        return number

    def __getitem__(self, number: int) -> T:
        return self.items[number]

    def __len__(self) -> int:
        return len(self.items)


def once(method: F) -> F:
    """Marks a method of `Parts` whose result depends on its arguments only."""
    method.is_once = True  # type: ignore[attr-defined]
    return method


def _itself(value: Hashable) -> Hashable:
    return value


class Parts:
    """See the module text. `is_checking_purity`: `step` runs twice, and must do the same."""

    def __init__(self, *, is_checking_purity: bool = False) -> None:
        self.logs: Pool[ChannelLog] = Pool(logs.key_of)
        self.agents: Pool[Agent] = Pool(agents.key_of)
        self.leaders: Pool[Leader] = Pool(leaders.key_of)
        self.inboxes: Pool[Inbox] = Pool(_itself)
        self.lates: Pool[tuple[Aged, ...]] = Pool(_itself)
        self.budgets: Pool[Budget] = Pool(_itself)
        self.batches: Pool[tuple[Aged, ...]] = Pool(_itself)
        self.words: Pool[tuple[Rec, ...]] = Pool(_itself)
        self.cores: Pool[Leader] = Pool(lambda leader: leader.key)
        self.step_calls = self.handle_calls = 0
        self._is_checking_purity = is_checking_purity
        for name in dir(type(self)):
            if getattr(getattr(type(self), name), "is_once", False):
                setattr(self, name, cache(getattr(self, name)))

    # ----------------------------------------------------------------------------- agents

    @once
    def agent_reads(self, number: int, words: int) -> int:
        """A poll brings these records and reaches the end."""
        return self._agent(agents.read(self.agents[number], self.words[words]))

    @once
    def agent_begins_flush(self, number: int) -> int:
        """A turn without a poll, up to the append."""
        return self._agent(agents.begin_flush(self.agents[number]))

    @once
    def agent_flushed(self, number: int) -> int:
        """The append was acknowledged."""
        return self._agent(agents.flushed(self.agents[number]))

    @once
    def agent_failed(self, number: int) -> int:
        """The append was reported as failed."""
        return self._agent(agents.flush_failed(self.agents[number]))

    @once
    def agent_closed(self, number: int, bundle: str) -> int:
        """A close ended."""
        return self._agent(agents.close_ended(self.agents[number], bundle))

    @once
    def agent_troubled(self, number: int, trouble: Trouble) -> int:
        """Trouble begins, or ends."""
        return self.agents.put(replace(self.agents[number], trouble=trouble))

    @once
    def agent_hung(self, number: int, bundle: str) -> int:
        """A close hangs."""
        return self.agents.put(agents.hung(self.agents[number], bundle))

    @once
    def agent_waits(self, number: int) -> int:
        """A turn whose poll failed."""
        return self._agent(agents.poll_failed(self.agents[number]))

    @once
    def agent_new(self, number: int) -> int:
        """The process was killed and began again."""
        return self.agents.put(agents.new_agent(self.agents[number].core.broker))

    @once
    def agent_later(self, number: int) -> int:
        """One unit later."""
        return self.agents.put(agents.aged(self.agents[number]))

    @once
    def one_server(self, first: int, second: int) -> bool:
        """Raises `Violation` if two brokers serve one hash at this moment."""
        served = [
            (broker, self.serves(number))
            for broker, number in zip(BROKERS, (first, second), strict=True)
        ]
        Judge(CHANNEL, lambda: served).one_server()
        return True

    @once
    def serves(self, number: int) -> frozenset[str]:
        """What clients of the broker can use at this moment."""
        agents.check_own_word(self.agents[number])
        return agents.serves(self.agents[number])

    def _agent(self, agent: Agent) -> int:
        self.handle_calls += 1
        return self.agents.put(agent)

    # ------------------------------------------------------------------------ the channel

    @once
    def unread(self, log: int, reader: int) -> int:
        """Number of the records that an agent has not read."""
        return self.words.put(tuple(one.rec for one in logs.unread(self.logs[log], reader)))

    @once
    def unread_dated(self, log: int, reader: int, missing: int) -> int:
        """Number of the records that the leader reads, but for the newest ones."""
        rows = logs.unread(self.logs[log], reader)
        return self.batches.put(rows[: len(rows) - missing])

    @once
    def log_moved(self, log: int, reader: int, missing: int = 0) -> int:
        """A reader has read, to the end or nearly."""
        return self.logs.put(logs.moved(self.logs[log], reader, missing))

    @once
    def log_restarted(self, log: int, reader: int) -> int:
        """A reader begins again."""
        return self.logs.put(logs.restarted(self.logs[log], reader))

    @once
    def log_append(self, log: int, records: tuple[Rec, ...]) -> int:
        """Records are appended; raises `Violation`."""
        return self.logs.put(logs.append(self.logs[log], records))

    @once
    def log_later(self, log: int) -> int:
        """One unit later."""
        return self.logs.put(logs.aged(self.logs[log]))

    @once
    def log_simplified(self, log: int, newcomers: Newcomers) -> int:
        """Without what nobody can tell apart."""
        return self.logs.put(logs.simplified(self.logs[log], newcomers))

    # ------------------------------------------------------------------------- the leader

    def step(
        self, leader: int, batch: int, signs: tuple[Sign, ...], orders: tuple[Command, ...]
    ) -> Decided:
        """What the core makes of one batch."""
        its = self.leaders[leader]
        return self._step(self.cores.put(its), batch, signs, leaders.ticks(its) + orders)

    @once
    def _step(
        self, core: int, batch: int, signs: tuple[Sign, ...], commands: tuple[Command, ...]
    ) -> Decided:
        self.step_calls += 1
        state = self.cores[core].state
        rows = self.batches[batch]
        return leaders.decide(state, rows, signs, commands, is_checked=self._is_checking_purity)

    def leader_decided(self, leader: int, decided: Decided) -> int:
        """The batch is decided; what it writes waits to be published."""
        return self.leaders.put(
            replace(
                self.leaders[leader],
                state=decided.state,
                key=decided.key,
                writes=decided.writes,
                refusals=(),
                lag=0,
                has_ticked=True,
            )
        )

    @once
    def leader_published(self, leader: int, has_crashed: bool) -> int:
        """What is not too late is on the channel; a leader that crashes then does not know."""
        its = self.leaders[leader]
        refused = tuple(write for write in its.writes if write.left < 0)
        return self.leaders.put(
            replace(
                its,
                writes=its.writes if has_crashed else (),
                refusals=refused,
                is_published=has_crashed,
                is_paused=its.is_paused or has_crashed,
            )
        )

    @once
    def leader_recovered(self, leader: int) -> int:
        """The marker says that the batch was published: it is not published again."""
        its = self.leaders[leader]
        return self.leaders.put(replace(its, writes=(), is_published=False, is_paused=False))

    @once
    def leader_paused(self, leader: int, is_paused: bool) -> int:
        """A pause begins, or ends."""
        return self.leaders.put(replace(self.leaders[leader], is_paused=is_paused))

    @once
    def leader_later(self, leader: int) -> int:
        """One unit later."""
        return self.leaders.put(leaders.aged(self.leaders[leader]))

    # -------------------------------------------------------------------------- the rest

    @once
    def inbox_gets(self, inbox: int, sign: Sign) -> int:
        """A sign of life is on the log."""
        its = self.inboxes[inbox]
        return self.inboxes.put(its._replace(unread=tuple(sorted({*its.unread, sign}, key=_order))))

    @once
    def inbox_read(self, inbox: int) -> int:
        """The leader has read all signs of life."""
        its = self.inboxes[inbox]
        past = tuple(sorted({*its.past, *its.unread}, key=_order))
        return self.inboxes.put(Inbox((), past))

    @once
    def inbox_reread(self, inbox: int) -> int:
        """A new leader reads them all again."""
        its = self.inboxes[inbox]
        return self.inboxes.put(Inbox(tuple(sorted({*its.past, *its.unread}, key=_order))))

    @once
    def inbox_without_past(self, inbox: int) -> int:
        """No new leader will come."""
        return self.inboxes.put(Inbox(self.inboxes[inbox].unread))

    @once
    def inbox_later(self, inbox: int) -> int:
        """One unit later; what is older than all timeouts has left the log."""
        its = self.inboxes[inbox]
        return self.inboxes.put(Inbox(_older(its.unread), _older(its.past)))

    @once
    def late_later(self, late: int) -> int:
        """One unit later; copies that were on their way for too long are lost."""
        rows = (one._replace(age=one.age + 1) for one in self.lates[late])
        return self.lates.put(tuple(one for one in rows if one.age <= LATE_MAX))


def _order(sign: Sign) -> tuple[int, Sign]:
    return (-sign.age, sign)


def _older(signs: tuple[Sign, ...]) -> tuple[Sign, ...]:
    return tuple(sign._replace(age=sign.age + 1) for sign in signs if sign.age < CORE_AGE_MAX)
