"""The whole system: a tuple of numbered parts, and all that may happen to it next.

    log      the channel with its readers            inbox   signs of life for the leader
    b1, b2   the brokers with their agents           late    copies of records still on their way
    leader   the controller                          budget  what is left of orders and faults

An event is a step of one process, an arrival, or the passing of a unit of time. Steps of different
processes come in any order, but time passes only when each process has done all that it can;
that one is late with it is a fault of its own, and lasts as long as it likes. `World.fair` is what
comes next when nothing goes wrong. Called by `search` and the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller.sim.explore import agent as agents
from controller.sim.explore import channel_log as logs
from controller.sim.explore import leader as leaders
from controller.sim.explore.agent import Agent, Trouble
from controller.sim.explore.bounds import (
    CRASH_AGENT,
    CRASH_LEADER,
    DELAY,
    DUPLICATE,
    REORDER,
)
from controller.sim.explore.channel_log import BEGINNING, ChannelLog
from controller.sim.explore.effects import LEADER, Effects, State
from controller.sim.explore.parts import Inbox
from controller.sim.explore.times import BROKERS, LEFT, PARENT
from controller.wire.commands import Assign, Command, SplitBundle, Transfer


class Event(NamedTuple):
    """What happens: `who` of the agents, and more, as `World.apply` understands it."""

    what: str
    who: int = -1
    given: str | int = ""
    order: Command | None = None


ASSIGN = Assign(bundle=PARENT, requestedBy="b1")
TRANSFERS = tuple(
    Transfer(bundle=bundle, destination=broker) for bundle in (PARENT, LEFT) for broker in BROKERS
)
SPLIT = SplitBundle(bundle=PARENT)


class World(Effects):
    """See the module text; one `World` belongs to one exploration."""

    def start(self) -> State:
        """A quiet cluster that has run for a while: both brokers speak, the bundle has no owner.

        It is reached by the production code itself, from processes that have just begun.
        """
        parts = self.parts
        empty = ChannelLog(positions=(BEGINNING,) * 3)
        state = State(
            parts.logs.put(empty),
            parts.agents.put(agents.new_agent(BROKERS[0])),
            parts.agents.put(agents.new_agent(BROKERS[1])),
            parts.leaders.put(leaders.new_leader()),
            parts.inboxes.put(Inbox()),
            parts.lates.put(()),
            parts.budgets.put(self.bounds.budget),
        )
        for who in (0, 1):
            state = self._read(state, who)
        for _ in range(12):
            state = self._later(state)
        return self._finish(state)

    # ------------------------------------------------------------------------ what happens

    def successors(self, state: State) -> Iterator[tuple[Event, State]]:
        """Everything that may happen next, always in the same order; raises `Violation`."""
        can_fail = self.parts.budgets[state.budget].faults > 0
        for who in (0, 1):
            yield from self._agent_steps(state, who)
            if can_fail:
                yield from self._agent_faults(state, who)
        yield from self._leader_steps(state)
        if can_fail:
            yield from self._leader_faults(state)
        for at in range(len(self.parts.lates[state.late])):
            yield Event("late", given=at), self._finish(self._arrives_late(state, at))
        if self.may_time_pass(state):
            yield Event("time"), self._finish(self._later(state))

    def _agent_steps(self, state: State, who: int) -> Iterator[tuple[Event, State]]:
        agent = self._agent(state, who)
        if agent.trouble:
            yield Event("wakes", who), self._finish(self._wake(state, who))
            if agent.trouble is Trouble.PAUSED:
                return
        if agent.trouble is not Trouble.DEAF and self._has_use_for_reading(state, who):
            yield Event("reads", who), self._finish(self._read(state, who))
        if agent.trouble is not Trouble.MUTE and agent.outbox:
            begun = self._begin_flush(state, who)
            yield Event("appends", who), self._finish(self._flush(begun, who))
        for close in agent.closes:
            number = self.parts.agent_closed(state[1 + who], close.bundle)
            yield Event("closed", who, close.bundle), self._finish(state.with_agent(who, number))

    def _agent_faults(self, state: State, who: int) -> Iterator[tuple[Event, State]]:
        agent, kinds = self._agent(state, who), self.bounds.kinds
        poorer = self._spend(state)
        if CRASH_AGENT in kinds and not agent.is_new:
            yield Event("crashes", who), self._finish(self._crash(poorer, who))
        if DELAY in kinds:
            yield from self._agent_delays(agent, poorer, who)
        if not agent.outbox or agent.trouble in (Trouble.MUTE, Trouble.PAUSED):
            return
        begun = self._begin_flush(poorer, who)
        records = self._agent(begun, who).outbox
        if DUPLICATE in kinds:
            lost = self._fail(self._arrive(begun, who), who)
            yield Event("appends, unacknowledged", who), self._finish(lost)
            twice = self._send_late(self._flush(begun, who), records)
            yield Event("appends, and again later", who), self._finish(twice)
        if REORDER in kinds:
            late = self._send_late(self._fail(begun, who), records)
            yield Event("appends, late", who), self._finish(late)

    def _agent_delays(self, agent: Agent, poorer: State, who: int) -> Iterator[tuple[Event, State]]:
        if not agent.trouble and not agent.is_new:
            for trouble in (Trouble.PAUSED, Trouble.MUTE, Trouble.DEAF):
                number = self.parts.agent_troubled(poorer[1 + who], trouble)
                yield Event(trouble.value, who), self._finish(poorer.with_agent(who, number))
        for close in agent.closes:
            if not close.is_hung:
                number = self.parts.agent_hung(poorer[1 + who], close.bundle)
                event = Event("close hangs", who, close.bundle)
                yield event, self._finish(poorer.with_agent(who, number))

    def _leader_steps(self, state: State) -> Iterator[tuple[Event, State]]:
        leader = self.parts.leaders[state.leader]
        if leader.is_published:
            number = self.parts.leader_recovered(state.leader)
            yield Event("recovers"), self._finish(state.with_leader(number))
        elif leader.is_paused:
            number = self.parts.leader_paused(state.leader, False)
            yield Event("leader wakes"), self._finish(state.with_leader(number))
        elif leader.writes:
            yield Event("publish"), self._finish(self._publish(state, False))
        else:
            quiet = self._step(state, 0, True, ())
            if quiet.writes or not leader.has_ticked:
                yield Event("decide"), self._finish(self._decided(state, quiet, 0, True))
            for order, poorer in self._orders(state):
                decided = self._step(state, 0, True, (order,))
                if decided.writes != quiet.writes:
                    event = Event("decide", order=order)
                    yield event, self._finish(self._decided(poorer, decided, 0, True))

    def _orders(self, state: State) -> Iterator[tuple[Command, State]]:
        """Orders of operators and requests of clients that may come now."""
        budget = self.parts.budgets[state.budget]
        stands = self.parts.logs[state.log].stands
        if not stands or (PARENT in stands and stands[PARENT].state == "Free"):
            yield ASSIGN, state
        if budget.transfers:
            poorer = self._with_budget(state, budget._replace(transfers=budget.transfers - 1))
            for order in TRANSFERS:
                if order.bundle in stands:
                    yield order, poorer
        if budget.splits and PARENT in stands:
            yield SPLIT, self._with_budget(state, budget._replace(splits=budget.splits - 1))

    def _leader_faults(self, state: State) -> Iterator[tuple[Event, State]]:
        leader, kinds = self.parts.leaders[state.leader], self.bounds.kinds
        poorer = self._spend(state)
        if DELAY in kinds and not leader.is_paused:
            number = self.parts.leader_paused(state.leader, True)
            yield Event("leader pauses"), self._finish(poorer.with_leader(number))
        if self.parts.budgets[state.budget].has_standby:
            yield Event("standby"), self._finish(self._take_over(poorer))
        if leader.is_published or leader.is_paused:
            return
        if leader.writes:
            if CRASH_LEADER in kinds:
                yield Event("publish, crash"), self._finish(self._publish(poorer, True))
            if DUPLICATE in kinds:
                records = tuple(write.rec for write in leader.writes if write.left >= 0)
                twice = self._send_late(self._publish(poorer, False), records)
                yield Event("publish, and again later"), self._finish(twice)
        elif REORDER in kinds:
            yield from self._short_batches(state, poorer)

    def _short_batches(self, state: State, poorer: State) -> Iterator[tuple[Event, State]]:
        """Batches that miss the newest records of one topic."""
        unread = len(logs.unread(self.parts.logs[state.log], LEADER))
        for missing in range(1, unread + 1):
            decided = self._step(state, missing, True, ())
            event = Event("decide, short of records", given=missing)
            yield event, self._finish(self._decided(poorer, decided, missing, True))
        if self.parts.inboxes[state.inbox].unread:
            decided = self._step(state, 0, False, ())
            event = Event("decide, short of signs")
            yield event, self._finish(self._decided(poorer, decided, 0, False))

    def fair(self, state: State) -> tuple[Event, State]:
        """What comes next when nothing goes wrong any more: one of `successors`, by rank."""
        event, following = self._fair(state)
        return event, self._finish(following)

    def _fair(self, state: State) -> tuple[Event, State]:
        parts = self.parts
        if parts.lates[state.late]:
            return Event("late", given=0), self._arrives_late(state, 0)
        for who in (0, 1):
            agent = self._agent(state, who)
            if agent.trouble:
                return Event("wakes", who), self._wake(state, who)
            if self._has_use_for_reading(state, who):
                return Event("reads", who), self._read(state, who)
            if agent.outbox:
                return Event("appends", who), self._flush(self._begin_flush(state, who), who)
            if agent.closes:
                bundle = agent.closes[0].bundle
                closed = state.with_agent(who, parts.agent_closed(state[1 + who], bundle))
                return Event("closed", who, bundle), closed
        return self._fair_leader(state)

    def _fair_leader(self, state: State) -> tuple[Event, State]:
        parts = self.parts
        leader = parts.leaders[state.leader]
        if leader.is_published:
            return Event("recovers"), state.with_leader(parts.leader_recovered(state.leader))
        if leader.is_paused:
            number = parts.leader_paused(state.leader, False)
            return Event("leader wakes"), state.with_leader(number)
        if leader.writes:
            return Event("publish"), self._publish(state, False)
        orders = () if parts.logs[state.log].stands else (ASSIGN,)
        decided = self._step(state, 0, True, orders)
        if decided.writes or not leader.has_ticked:
            event = Event("decide", order=orders[0] if orders else None)
            return event, self._decided(state, decided, 0, True)
        return Event("time"), self._later(state)

    def is_settled(self, state: State) -> bool:
        """Nothing is in flight, and all is served by its owner and by nobody else."""
        parts = self.parts
        if parts.lates[state.late] or parts.leaders[state.leader].writes:
            return False
        served: dict[str, str] = {}
        for who, broker in enumerate(BROKERS):
            number = state[1 + who]
            if parts.agents[number].outbox or parts.agents[number].closes:
                return False
            served.update(dict.fromkeys(parts.serves(number), broker))
        owners = {}
        for key, rec in parts.logs[state.log].stands.items():
            if rec.state == "Owned":
                owners[key] = rec.dst
            elif rec.state != "Deleted":
                return False
        return served == owners and bool(owners)
