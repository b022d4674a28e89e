"""Makes things go wrong for a while, then puts everything right.

Each run draws which kinds of faults it has and how often (swarm testing): runs with few kinds go
deeper than runs with all of them. Bounds that the protocol states hold here too: no write arrives
later than `LATE_MAX_MS`, no clock drifts more than the configuration allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.sim.chaos.agent_process import AgentFaults, AgentProcess
from controller.sim.chaos.broker import BrokerFaults
from controller.sim.chaos.controller_process import ControllerFaults
from controller.sim.chaos.log import LinkFaults
from controller.sim.chaos.world import CHANNEL, COMMANDS, REPORTS, World
from controller.transport.port import OutRecord

LATE_MAX_MS = 3_000
COMPACTION_LAG_MS = 3_000
PACES_MS = ((50, 300), (100, 800), (300, 1_500))


@dataclass(slots=True)
class Nemesis:
    """Begins faults at random until `stop`, from the kinds that this run has."""

    world: World
    is_over: bool = False
    kinds: list[Callable[[], None]] = field(init=False)
    pace_ms: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        chance = self.world.kernel.random
        every = [
            self.kill_agent,
            self.pause_agent,
            self.cut_off,
            self.cut_reads,
            self.cut_writes,
            self.kill_controller,
            self.pause_controller,
            self.leave,
            self.repeat_record,
            self.write_stale,
            self.write_garbage,
            self.compact,
        ]
        self.kinds = chance.sample(every, chance.randint(1, len(every)))
        self.pace_ms = chance.choice(PACES_MS)

    def start(self) -> None:
        """Sets the steady faults of this run, and begins with the sudden ones."""
        chance = self.world.kernel.random
        for agent in self.world.agents:
            if chance.random() < 0.5:
                agent.faults = AgentFaults(
                    slow_turn=chance.choice((0.0, 0.05, 0.3)),
                    slow_turn_max_ms=chance.choice((300, 1_000, 4_000)),
                    close_max_ms=chance.choice((0, 100, 2_000, 6_000)),
                )
                agent.broker_faults = BrokerFaults(
                    acquire_fails=chance.choice((0.0, 0.1)),
                    release_fails=chance.choice((0.0, 0.1)),
                    split_fails=chance.choice((0.0, 0.1)),
                    boundaries_change=chance.choice((0.0, 0.3)),
                )
            if chance.random() < 0.5 and agent.link is not None:
                agent.link.faults = LinkFaults(
                    lost_ack=chance.choice((0.0, 0.1)),
                    late_write=chance.choice((0.0, 0.05)),
                    late_write_max_ms=LATE_MAX_MS,
                    repeated_write=chance.choice((0.0, 0.05)),
                )
        for controller in self.world.controllers:
            controller.faults = ControllerFaults(
                short_read=chance.choice((0.0, 0.3, 1.0)), stage_max_ms=chance.choice((5, 100, 600))
            )
        self._soon()

    def stop(self) -> None:
        """Ends all faults: everything runs, nothing fails any more."""
        self.is_over = True
        for agent in self.world.agents:
            agent.faults, agent.broker_faults = AgentFaults(), BrokerFaults()
            if agent.link is not None:
                agent.link.faults = LinkFaults()
            if agent.broker is not None:
                agent.broker.faults = agent.broker_faults
            agent.wakes_ms = min(agent.wakes_ms, self.world.kernel.now_ms)
            if agent.is_leaving:
                agent.kill()
            agent.start()
        for controller in self.world.controllers:
            controller.faults = ControllerFaults()
            controller.wakes_ms = min(controller.wakes_ms, self.world.kernel.now_ms)
            controller.start()

    def _soon(self) -> None:
        kernel = self.world.kernel
        kernel.later(kernel.random.randint(*self.pace_ms), self._strike)

    def _strike(self) -> None:
        if not self.is_over:
            self.world.kernel.random.choice(self.kinds)()
            self._soon()

    def _some_agent(self) -> AgentProcess:
        return self.world.kernel.random.choice(self.world.agents)

    def _duration(self) -> int:
        return self.world.kernel.random.choice((50, 300, 900, 2_500, 3_500, 5_500, 7_000, 9_000))

    def kill_agent(self) -> None:
        """SIGKILL; the supervisor starts it again after a while."""
        agent = self._some_agent()
        agent.kill()
        self.world.kernel.later(self._duration(), agent.start)

    def pause_agent(self) -> None:
        """A long collection of garbage, possibly beyond its lease."""
        self._some_agent().pause(self._duration())

    def cut_off(self) -> None:
        """The agent's process runs and its clients reach it; the log does not."""
        agent = self._some_agent()
        self._cut(agent, is_reading=True, is_writing=True)

    def cut_reads(self) -> None:
        """The agent cannot read the channel, but its signs of life get through."""
        self._cut(self._some_agent(), is_reading=True)

    def cut_writes(self) -> None:
        """The agent's signs of life and records do not get through; it can read."""
        self._cut(self._some_agent(), is_writing=True)

    def _cut(
        self, agent: AgentProcess, *, is_reading: bool = False, is_writing: bool = False
    ) -> None:
        if agent.link is None:
            return
        until_ms = self.world.kernel.now_ms + self._duration()
        if is_reading:
            agent.link.faults.reads_fail_until_ms = until_ms
            self.world.kernel.tell(agent.name, f"cannot read until {until_ms / 1_000}")
        if is_writing:
            agent.link.faults.writes_fail_until_ms = until_ms
            self.world.kernel.tell(agent.name, f"cannot write until {until_ms / 1_000}")

    def kill_controller(self) -> None:
        """SIGKILL of leader or standby, in whatever stage it is."""
        controller = self.world.kernel.random.choice(self.world.controllers)
        controller.kill()
        self.world.kernel.later(self._duration(), controller.start)

    def pause_controller(self) -> None:
        """A controller that stops and wakes up, possibly fenced by then."""
        self.world.kernel.random.choice(self.world.controllers).pause(self._duration())

    def leave(self) -> None:
        """A broker is asked to stop; when it has, it is started again."""
        self._some_agent().leave(self._duration())

    def repeat_record(self) -> None:
        """A record that was written not long ago is written once more, by whatever cause."""
        recent = self._recent()
        if recent is not None:
            self.world.kernel.tell("nemesis", f"repeats {recent}")
            self.world.log.append([recent])

    def write_stale(self) -> None:
        """A record that must lose: another content under a version that was taken."""
        recent = self._recent()
        if recent is not None and recent.value is not None:
            chance = self.world.kernel.random
            old = chance.choice(self.world.agents).name.encode()
            new = chance.choice(self.world.agents).name.encode()
            value = recent.value.replace(b'"%s"' % old, b'"%s"' % new)
            self.world.log.append([OutRecord(recent.topic, recent.key, value)])

    def write_garbage(self) -> None:
        """Something that nobody can read."""
        chance = self.world.kernel.random
        topic = chance.choice((CHANNEL, COMMANDS, REPORTS))
        value = chance.choice((b"", b"{", b'{"state":"Owned"}', b"\xff\xfe", b"null", b"[]"))
        key = chance.choice((None, "", "x", "sim/b1", self.world.bundles()[0]))
        self.world.log.append([OutRecord(topic, key, value)])

    def compact(self) -> None:
        """The channel is compacted, whoever is reading it just now.

        The topic's compaction lag must be longer than the controllers need to heal what a losing
        record may do to late readers; so nothing younger than such a record is compacted.
        """
        log, tainted = self.world.log, self.world.judge.tainted
        oldest_ms = min((since_ms for since_ms, _ in tainted.values()), default=log.now_ms())
        gone = log.compact(CHANNEL, max(COMPACTION_LAG_MS, log.now_ms() - oldest_ms))
        self.world.kernel.tell("nemesis", f"compaction removes {gone} records")

    def _recent(self) -> OutRecord | None:
        """A channel record of the last while that is not a tombstone."""
        log = self.world.log
        rows = [
            row
            for part in log.partitions[CHANNEL]
            for row in part[-12:]
            if row.value is not None and row.ingest_ms >= log.now_ms() - LATE_MAX_MS
        ]
        if not rows:
            return None
        row = self.world.kernel.random.choice(rows)
        return OutRecord(row.topic, row.key, row.value)
