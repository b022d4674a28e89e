"""Property: many agents on one log never serve the same hashes at once.

Each agent reads the same log at its own pace. Its loop hangs now and then, for longer than its
lease or not; its signs of life get lost for a while although it goes on reading; closes take
several times the grace; it is killed and comes back. The test plays the controller: assign,
transfer, unload, split, stale and random records, and forced records of three kinds: those that
repair something of a broker that reads as it should, those that repair what is in flight for too
long, and those that take everything from a broker that was silent for the take-over time. An
overlap is looked for after every single event.
"""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.agent.core import handle
from controller.agent.events import (
    Acquire,
    Acquired,
    Action,
    ChannelRecord,
    Drop,
    Event,
    Fence,
    Heard,
    LeaseLost,
    Polled,
    Publish,
    Release,
    Released,
    SendHeartbeat,
    SendReport,
    Split,
    SplitDone,
    Timer,
)
from controller.agent.state import AgentSettings, AgentState, deadline_ms, new_state
from controller.channel.conflict import keep_old
from controller.channel.states import IN_FLIGHT
from controller.model.boundaries import range_midpoint
from controller.model.bundles import split_name
from controller.wire.channel import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    encode_channel,
)
from tests.agent.builders import data

NAMES = ("b1", "b2", "b3")
STEP_MS = 50
SETTINGS = AgentSettings(
    heartbeat_interval_ms=300,
    report_interval_ms=600,
    lease_ms=3_000,
    unheard_poll_ms=500,
    heard_settle_ms=50,  # here the controller writes what it decides at once
    takeover_grace_ms=700,  # > unheard_poll_ms + two steps, by which a fence may be late
    retry_ms=200,
)
PACE_MS = 200  # an agent that does not hang reads so often
TAKEOVER_MS = SETTINGS.lease_ms + SETTINGS.heartbeat_interval_ms + 2 * PACE_MS
IN_FLIGHT_MS_MAX = SETTINGS.lease_ms + 2 * STEP_MS  # then it is repaired
CLOSES_MS = (0, 100, 1_000, 2 * IN_FLIGHT_MS_MAX)
OPS = (
    "assign",
    "transfer",
    "unload",
    "split",
    "repair",
    "stale",
    "garbage",
    "forget",
    "hang",
    "mute",
    "kill",
    "wait",
)


IDLE = (ServiceUnitState.Free, ServiceUnitState.Deleted)


def _server(now: ServiceUnitStateData) -> str | None:
    """Who may be serving the bundle by its record."""
    if now.state in IDLE:
        return None
    is_ending = now.state in (ServiceUnitState.Releasing, ServiceUnitState.Splitting)
    return now.sourceBroker if is_ending else now.dstBroker


class Agent:
    """One agent, its place in the log, and what its broker really serves."""

    def __init__(self, name: str) -> None:
        self.state: AgentState = new_state("c", name)
        self.position = 0
        self.read_ms = 0
        self.hangs_until_ms = 0
        self.is_muted_until_ms = 0
        self.heard_ms = 0  # by the controller
        self.is_fenced_by_watchdog = False
        self.serves: set[str] = set()
        self.closing: dict[str, int] = {}

    def restart(self) -> None:
        self.state = new_state("c", self.state.broker, self.state.sequence)
        self.position = 0
        self.serves.clear()
        self.closing.clear()
        self.is_fenced_by_watchdog = False


class World:
    """The log, the agents and the time; the random generator decides pace and close times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[ChannelRecord] = []
        self.table: dict[str, ServiceUnitStateData] = {}
        self.agents = [Agent(name) for name in NAMES]
        self.now_ms = 1_000
        self.changed_ms: dict[str, int] = {}
        self.steady_until_ms = 0  # until then nobody begins to hang

    def write(self, key: str, record: ServiceUnitStateData | None) -> None:
        value = None if record is None else encode_channel(record)
        self.log.append(ChannelRecord(key, value, len(self.log)))
        new = decode_channel(value)
        if keep_old(self.table.get(key), new) is None:
            self.changed_ms[key] = self.now_ms
            if new is None:
                self.table.pop(key, None)
            else:
                self.table[key] = new

    def feed(self, agent: Agent, event: Event) -> None:
        agent.state, actions = handle(agent.state, event, self.now_ms, SETTINGS)
        for action in actions:
            self.execute(agent, action)
            self.check()

    def execute(self, agent: Agent, action: Action) -> None:
        match action:
            case Publish(key, record):
                self.write(key, record)
            case Acquire(bundle):
                agent.serves.add(bundle)
                self.feed(agent, Acquired(bundle))
            case Release(bundle):
                agent.closing[bundle] = self.now_ms + self.random.choice(CLOSES_MS)
            case Drop(bundle):
                agent.serves.discard(bundle)
            case Split(bundle, children):
                if bundle in agent.serves:
                    agent.serves.discard(bundle)
                    agent.serves.update(children)
                self.feed(agent, SplitDone(bundle))
            case Fence():
                agent.serves.clear()
            case SendReport() | SendHeartbeat():
                if self.now_ms >= agent.is_muted_until_ms:
                    agent.heard_ms = self.now_ms
                    self.feed(agent, Heard(self.now_ms))

    def poll(self, agent: Agent, limit: int) -> None:
        rows = tuple(self.log[agent.position : agent.position + limit])
        agent.position += len(rows)
        at_end = agent.position == len(self.log)
        if at_end:
            agent.read_ms = self.now_ms
        self.feed(agent, Polled(rows, self.now_ms, at_end))

    def pass_time(self, ms: int) -> None:
        """In small steps: closes end, watchdogs look, timers fire, and who can poll polls."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            for agent in self.agents:
                self.step(agent)
                self.take_over(agent)
            self.repair()

    def step(self, agent: Agent) -> None:
        """A loop that hangs handles no event; its pool and its watchdog go on."""
        ended = [bundle for bundle, at in agent.closing.items() if at <= self.now_ms]
        agent.serves.difference_update(ended)
        if self.now_ms < agent.hangs_until_ms:
            until_ms = deadline_ms(agent.state, SETTINGS)
            if until_ms is not None and self.now_ms > until_ms:
                agent.is_fenced_by_watchdog = True
                agent.serves.clear()
            return
        if agent.is_fenced_by_watchdog:
            agent.is_fenced_by_watchdog = False
            self.feed(agent, LeaseLost())
        for bundle in ended:
            del agent.closing[bundle]
            self.feed(agent, Released(bundle))
        self.feed(agent, Timer())
        if self.random.random() < 0.3:
            self.poll(agent, self.random.randint(1, 5))
        if self.now_ms - agent.read_ms >= PACE_MS:
            self.poll(agent, 1_000_000)

    def check(self) -> None:
        served = [
            (*split_name(bundle), agent.state.broker)
            for agent in self.agents
            for bundle in agent.serves
        ]
        served.sort()
        for (ns, _, upper, who), (ns2, lower2, _, who2) in pairwise(served):
            assert ns != ns2 or lower2 >= upper, f"{who} and {who2} overlap at {self.now_ms}"

    # ------------------------------------------------------------------- the controller

    def do(self, op: str, pick: int, broker: str) -> None:
        units = sorted(self.table.items())
        if op == "assign" or not units:
            self.assign(pick, broker)
            return
        bundle, now = units[pick % len(units)]
        is_owned = now.state == ServiceUnitState.Owned
        version = now.versionId + 1
        if op in ("transfer", "unload") and is_owned and broker != now.dstBroker:
            destination = broker if op == "transfer" else None
            self.write(bundle, data("Releasing", version, destination, now.dstBroker))
        elif op == "split" and is_owned:
            self.split(bundle, now)
        elif op == "repair" and now.state not in IDLE and self.reads(now):
            self.override(bundle, now, broker)
        elif op == "forget" and now.state == ServiceUnitState.Free:
            self.write(bundle, None)
        elif op == "stale":
            self.write(bundle, data("Owned", max(now.versionId - pick % 3, 1), broker))
        elif op == "garbage":
            self.log.append(ChannelRecord(bundle, b"{nonsense", len(self.log)))

    def assign(self, pick: int, broker: str) -> None:
        """A hash range that no unit of the table overlaps."""
        lower = (pick % 4) << 30
        name = f"t/ns/0x{lower:08x}_0x{min(lower + (1 << 30), 0xFFFFFFFF):08x}"
        old = self.table.get(name)
        if old is not None and old.state == ServiceUnitState.Free:
            self.write(name, data("Assigning", old.versionId + 1, broker))
        elif old is None and not any(
            split_name(b)[1] < lower + (1 << 30) and lower < split_name(b)[2] for b in self.table
        ):
            self.write(name, data("Assigning", 1, broker))

    def split(self, bundle: str, now: ServiceUnitStateData) -> None:
        _, lower, upper = split_name(bundle)
        middle = range_midpoint(lower, upper)
        children: dict[str, str | None] = {
            f"0x{lower:08x}_0x{middle:08x}": None,
            f"0x{middle:08x}_0x{upper:08x}": None,
        }
        record = data("Splitting", now.versionId + 1, None, now.dstBroker, children=children)
        self.write(bundle, record)

    def override(self, bundle: str, now: ServiceUnitStateData, broker: str) -> None:
        version = now.versionId + 1
        if now.state == ServiceUnitState.Splitting:
            children = now.splitServiceUnitToDestBroker
            record = data(
                "Splitting", version, now.dstBroker, broker, children=children, force=True
            )
        else:
            record = data("Owned", version, broker, now.dstBroker or now.sourceBroker, force=True)
        self.write(bundle, record)

    def agent(self, name: str | None) -> Agent | None:
        return self.agents[NAMES.index(name)] if name in NAMES else None

    def reads(self, now: ServiceUnitStateData) -> bool:
        """Nobody who may be serving the bundle hangs, nor will for the length of the grace."""
        found = [self.agent(name) for name in (now.dstBroker, now.sourceBroker)]
        involved = [agent for agent in found if agent is not None]
        if any(self.now_ms < agent.hangs_until_ms for agent in involved):
            return False
        self.steady_until_ms = self.now_ms + SETTINGS.takeover_grace_ms
        return True

    def hang(self, agent: Agent, ms: int) -> None:
        wait_ms = self.steady_until_ms - self.now_ms
        if wait_ms > 0:
            self.pass_time(wait_ms)
        agent.hangs_until_ms = self.now_ms + ms

    def take_over(self, silent: Agent) -> None:
        """All bundles of a broker that the controller has not heard for long enough."""
        if self.now_ms - silent.heard_ms <= TAKEOVER_MS:
            return
        for bundle, now in sorted(self.table.items()):
            if _server(now) == silent.state.broker:
                self.give_away(bundle, now)

    def repair(self) -> None:
        """What is in flight for too long, whoever is to blame, and whether or not it reads."""
        for bundle, now in sorted(self.table.items()):
            age_ms = self.now_ms - self.changed_ms[bundle]
            if now.state in IN_FLIGHT and age_ms > IN_FLIGHT_MS_MAX:
                self.give_away(bundle, now)

    def give_away(self, bundle: str, now: ServiceUnitStateData) -> None:
        others = [name for name in NAMES if name != _server(now)]
        self.override(bundle, now, self.random.choice(others))

    def mishap(self, op: str, agent: Agent) -> None:
        """Long enough that some outlast the lease, the take-over time, or both."""
        longest_ms = 2 * TAKEOVER_MS
        if op == "hang":
            self.hang(agent, self.random.randint(100, longest_ms))
        elif op == "mute":
            agent.is_muted_until_ms = self.now_ms + self.random.randint(100, 2 * longest_ms)
        elif op == "kill":
            agent.restart()

    def live(self, steps: int) -> None:
        """A life of a cluster that begins with every hash assigned."""
        for pick in range(4):
            self.assign(pick, self.random.choice(NAMES))
        self.pass_time(600)
        for _ in range(steps):
            op, broker = self.random.choice(OPS), self.random.choice(NAMES)
            if op in ("hang", "mute", "kill"):
                self.mishap(op, self.agents[NAMES.index(broker)])
            else:
                self.do(op, self.random.randint(0, 40), broker)
            self.pass_time(STEP_MS * self.random.choice((0, 1, 3, 10, 40)))
        for agent in self.agents:
            agent.hangs_until_ms = agent.is_muted_until_ms = 0
        self.pass_time(10_000)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_no_interleaving_makes_two_agents_serve_the_same_bundle(seed: int) -> None:
    world = World(seed)
    world.live(steps=60)
    settled = {
        (bundle, now.dstBroker)
        for bundle, now in world.table.items()
        if now.state == ServiceUnitState.Owned
    }
    served = {(b, agent.state.broker) for agent in world.agents for b in agent.serves}
    assert served == settled


step = st.tuples(st.sampled_from(OPS), st.integers(0, 40), st.sampled_from(NAMES))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.lists(step, min_size=5, max_size=25), st.integers(0, 1_000))
def test_losing_records_change_nothing(
    seed: int, steps: list[tuple[str, int, str]], place: int
) -> None:
    world = World(seed)
    for op, pick, broker in steps:
        if op not in ("hang", "mute", "kill", "stale", "garbage"):
            world.do(op, pick, broker)
            world.pass_time(150)
    plain, noisy = new_state("c", "b1"), new_state("c", "b1")
    for index, row in enumerate(world.log):
        plain, _ = handle(plain, Polled((row,), 1_000), 1_000, SETTINGS)
        noisy, _ = handle(noisy, Polled((row,), 1_000), 1_000, SETTINGS)
        known = noisy.table.get(row.key)
        if known is not None and (index + place) % 3 == 0:
            loser = encode_channel(data("Owned", known.versionId, "b9"))
            before = noisy
            noisy, actions = handle(
                noisy, Polled((ChannelRecord(row.key, loser, 0),), 1_000), 1_000, SETTINGS
            )
            assert actions == ()
            assert noisy.table == before.table and noisy.phases == before.phases
    assert noisy.table == plain.table
    assert noisy.phases == plain.phases
