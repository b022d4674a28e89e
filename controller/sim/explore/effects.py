"""What an event does to the numbered parts; the base of `world`, which says when it may happen."""

from __future__ import annotations

from typing import NamedTuple

from controller.sim.explore import agent as agents
from controller.sim.explore import leader as leaders
from controller.sim.explore.agent import Agent, Trouble
from controller.sim.explore.bounds import Bounds
from controller.sim.explore.channel_log import Newcomers
from controller.sim.explore.leader import Decided
from controller.sim.explore.parts import Budget, Parts
from controller.sim.explore.records import Aged, Rec
from controller.sim.explore.times import LAG_MAX
from controller.wire.commands import Command

LEADER = 2  # as a reader of the channel, behind the two agents


class State(NamedTuple):
    """Numbers of the parts. Changes are written out: they are what the search does most."""

    log: int
    b1: int
    b2: int
    leader: int
    inbox: int
    late: int
    budget: int

    def with_log(self, log: int) -> State:
        """Another channel."""
        return State(log, *self[1:])

    def with_agent(self, who: int, number: int) -> State:
        """Another agent in its place."""
        log, b1, b2, leader, inbox, late, budget = self
        if who:
            return State(log, b1, number, leader, inbox, late, budget)
        return State(log, number, b2, leader, inbox, late, budget)

    def with_leader(self, leader: int) -> State:
        """Another leader."""
        return State(self.log, self.b1, self.b2, leader, *self[4:])

    def with_inbox(self, inbox: int) -> State:
        """Other signs of life."""
        return State(*self[:4], inbox, *self[5:])

    def with_late(self, late: int) -> State:
        """Other copies on their way."""
        return State(*self[:5], late, self.budget)

    def with_budget(self, budget: int) -> State:
        """Another budget."""
        return State(*self[:6], budget)


class Effects:
    """Steps of the processes, each from one `State` to the next."""

    def __init__(self, bounds: Bounds, *, is_checking_purity: bool = False) -> None:
        agents.check_fields()
        self.bounds = bounds
        self.parts = Parts(is_checking_purity=is_checking_purity)
        self._nothing = self.parts.words.put(())

    def _agent(self, state: State, who: int) -> Agent:
        return self.parts.agents[state[1 + who]]

    def _finish(self, state: State) -> State:
        """One server, always; and what nobody can tell apart any more is made equal."""
        parts = self.parts
        parts.one_server(state.b1, state.b2)
        budget = parts.budgets[state.budget]
        newcomers = Newcomers.NOBODY
        if budget.faults:
            newcomers = Newcomers.LEADER if budget.has_standby else Newcomers.AGENTS
        if newcomers is not Newcomers.LEADER:
            state = state.with_inbox(parts.inbox_without_past(state.inbox))
        return state.with_log(parts.log_simplified(state.log, newcomers))

    def _with_budget(self, state: State, budget: Budget) -> State:
        return state.with_budget(self.parts.budgets.put(budget))

    def _spend(self, state: State) -> State:
        """One fault less; without any left the standby cannot come."""
        budget = self.parts.budgets[state.budget]
        left = budget.faults - 1
        poorer = budget._replace(faults=left, has_standby=budget.has_standby and left > 0)
        return self._with_budget(state, poorer)

    def _read(self, state: State, who: int) -> State:
        """A sign of life without records goes out in the same step, or is lost."""
        parts = self.parts
        number = parts.agent_reads(state[1 + who], parts.unread(state.log, who))
        state = state.with_agent(who, number).with_log(parts.log_moved(state.log, who))
        agent = parts.agents[number]
        if agent.trouble is Trouble.MUTE:
            return self._fail(state, who)
        return self._flush(state, who) if agent.sign and not agent.outbox else state

    def _wake(self, state: State, who: int) -> State:
        """Trouble ends, and the process does what it would have done."""
        number = self.parts.agent_troubled(state[1 + who], Trouble.NONE)
        return self._read(state.with_agent(who, number), who)

    def _begin_flush(self, state: State, who: int) -> State:
        return state.with_agent(who, self.parts.agent_begins_flush(state[1 + who]))

    def _flush(self, state: State, who: int) -> State:
        state = self._arrive(state, who)
        return state.with_agent(who, self.parts.agent_flushed(state[1 + who]))

    def _arrive(self, state: State, who: int) -> State:
        """The outbox gets onto the log, whether or not its agent comes to know."""
        agent = self._agent(state, who)
        if agent.sign is not None:
            state = state.with_inbox(self.parts.inbox_gets(state.inbox, agent.sign))
        return self._append(state, agent.outbox)

    def _fail(self, state: State, who: int) -> State:
        return state.with_agent(who, self.parts.agent_failed(state[1 + who]))

    def _append(self, state: State, records: tuple[Rec, ...]) -> State:
        if not records:
            return state
        return state.with_log(self.parts.log_append(state.log, records))

    def _send_late(self, state: State, records: tuple[Rec, ...]) -> State:
        """The copies arrive one by one, in any order and at any time within `LATE_MAX`."""
        rows = (*self.parts.lates[state.late], *(Aged(rec, 0, False) for rec in records))
        return state.with_late(self.parts.lates.put(tuple(sorted(rows))))

    def _arrives_late(self, state: State, at: int) -> State:
        rows = self.parts.lates[state.late]
        rest = self.parts.lates.put(rows[:at] + rows[at + 1 :])
        return self._append(state.with_late(rest), (rows[at].rec,))

    def _crash(self, state: State, who: int) -> State:
        number = self.parts.agent_new(state[1 + who])
        return state.with_agent(who, number).with_log(self.parts.log_restarted(state.log, who))

    def _has_use_for_reading(self, state: State, who: int) -> bool:
        """A read that brings nothing may still prove something to the agent."""
        number = state[1 + who]
        return (
            self._has_unread(state, who) or self.parts.agent_reads(number, self._nothing) != number
        )

    def _has_unread(self, state: State, who: int) -> bool:
        return bool(self.parts.words[self.parts.unread(state.log, who)])

    def _step(
        self, state: State, missing: int, has_signs: bool, orders: tuple[Command, ...]
    ) -> Decided:
        batch = self.parts.unread_dated(state.log, LEADER, missing)
        signs = self.parts.inboxes[state.inbox].unread if has_signs else ()
        return self.parts.step(state.leader, batch, signs, orders)

    def _decided(self, state: State, decided: Decided, missing: int, has_signs: bool) -> State:
        if has_signs:
            state = state.with_inbox(self.parts.inbox_read(state.inbox))
        log = self.parts.log_moved(state.log, LEADER, missing)
        return state.with_leader(self.parts.leader_decided(state.leader, decided)).with_log(log)

    def _publish(self, state: State, has_crashed: bool) -> State:
        """All writes of a batch at once, but for those that come too late."""
        writes = self.parts.leaders[state.leader].writes
        state = self._append(state, tuple(write.rec for write in writes if write.left >= 0))
        number = self.parts.leader_published(state.leader, has_crashed)
        return state.with_leader(number)

    def _take_over(self, state: State) -> State:
        """The standby leads with an empty checkpoint; what the other has decided is fenced off."""
        budget = self.parts.budgets[state.budget]._replace(has_standby=False)
        new = self._with_budget(state, budget).with_leader(
            self.parts.leaders.put(leaders.new_leader())
        )
        inbox = self.parts.inbox_reread(state.inbox)
        return new.with_inbox(inbox).with_log(self.parts.log_restarted(state.log, LEADER))

    def may_time_pass(self, state: State) -> bool:
        """True if everybody has done the work of this unit, or is delayed."""
        for who in (0, 1):
            agent = self._agent(state, who)
            if not agents.is_idle(agent, not agent.is_new and self._has_unread(state, who)):
                return False
        leader = self.parts.leaders[state.leader]
        is_done = leader.has_ticked and not leader.writes
        return (is_done or leader.is_paused) and leader.lag < LAG_MAX

    def _later(self, state: State) -> State:
        """One unit passes, and who can begins the new one as it always does.

        Agents read (nothing, as all was read) and say that they live; then the leader reads all
        and runs its tick. What they would append or publish after that are events of their own.
        """
        parts = self.parts
        state = State(
            parts.log_later(state.log),
            parts.agent_later(state.b1),
            parts.agent_later(state.b2),
            parts.leader_later(state.leader),
            parts.inbox_later(state.inbox),
            parts.late_later(state.late),
            state.budget,
        )
        for who in (0, 1):
            agent = self._agent(state, who)
            if agent.trouble is Trouble.DEAF:
                state = state.with_agent(who, parts.agent_waits(state[1 + who]))
            elif agent.trouble is not Trouble.PAUSED and not agent.is_new:
                state = self._read(state, who)
        if parts.leaders[state.leader].is_paused:
            return state
        return self._decided(state, self._step(state, 0, True, ()), 0, True)
