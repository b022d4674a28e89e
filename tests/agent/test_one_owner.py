"""Property: many agents on one log never serve the same hashes at once.

Each agent reads the same log at its own pace, but no slower than half the grace unless it hangs;
an agent that hangs is fenced by its lease, and its bundles are given away only after that. The
test plays the controller: assign, transfer, unload, split, forced overrides, stale and random
records. Closes take time; an overlap is looked for after every single event.
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
    Event,
    Fence,
    Polled,
    Publish,
    Release,
    Released,
    Split,
    SplitDone,
    Timer,
)
from controller.agent.state import AgentSettings, AgentState, new_state
from controller.channel.conflict import keep_old
from controller.model.bundles import range_midpoint, split_name
from controller.wire.channel import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    encode_channel,
)
from tests.agent.builders import data

NAMES = ("b1", "b2", "b3")
SETTINGS = AgentSettings(lease_ms=3_000, takeover_grace_ms=1_000, retry_ms=200)
PACE_MS, CLOSE_MS_MAX = 300, 400  # pace + close stay below the grace
OPS = ("assign", "transfer", "unload", "split", "override", "stale", "garbage", "hang", "wait")


class Agent:
    """One agent, its place in the log, and what its broker really serves."""

    def __init__(self, name: str) -> None:
        self.state: AgentState = new_state("c", name)
        self.position = 0
        self.polled_ms = 0
        self.hangs_until_ms = 0
        self.serves: set[str] = set()
        self.closing: dict[str, int] = {}


class World:
    """The log, the agents and the time; the random generator decides pace and close times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[ChannelRecord] = []
        self.table: dict[str, ServiceUnitStateData] = {}
        self.agents = [Agent(name) for name in NAMES]
        self.now_ms = 1_000

    def write(self, key: str, record: ServiceUnitStateData | None) -> None:
        value = None if record is None else encode_channel(record)
        self.log.append(ChannelRecord(key, value, len(self.log)))
        new = decode_channel(value)
        if keep_old(self.table.get(key), new) is None:
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
                agent.closing[bundle] = self.now_ms + self.random.randint(0, CLOSE_MS_MAX)
            case Split(bundle, children):
                agent.serves.discard(bundle)
                agent.serves.update(children)
                self.feed(agent, SplitDone(bundle))
            case Fence():
                agent.serves.clear()

    def poll(self, agent: Agent, limit: int) -> None:
        rows = tuple(self.log[agent.position : agent.position + limit])
        agent.position += len(rows)
        at_end = agent.position == len(self.log)
        self.feed(agent, Polled(rows, self.now_ms, at_end))
        if at_end:
            agent.polled_ms = self.now_ms

    def pass_time(self, ms: int) -> None:
        """In small steps: closes end, timers fire, and nobody who can poll polls too late."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms += 50
            for agent in self.agents:
                for bundle in [b for b, at in agent.closing.items() if at <= self.now_ms]:
                    del agent.closing[bundle]
                    agent.serves.discard(bundle)
                    self.feed(agent, Released(bundle))
                self.feed(agent, Timer())
                if self.now_ms >= agent.hangs_until_ms:
                    if self.random.random() < 0.3:
                        self.poll(agent, self.random.randint(1, 5))
                    if self.now_ms - agent.polled_ms >= PACE_MS:
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
        elif op == "override" and now.state not in (
            ServiceUnitState.Free,
            ServiceUnitState.Deleted,
        ):
            self.override(bundle, now, broker)
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

    def hang(self, agent: Agent, ms: int) -> None:
        """The agent cannot poll for `ms`; its bundles are given away once its lease is over.

        It hears of overrides before: against owners that hang the grace is no protection, the
        controller's waiting for the end of the lease is.
        """
        self.pass_time(SETTINGS.takeover_grace_ms)
        agent.hangs_until_ms = self.now_ms + ms
        self.pass_time(min(ms, SETTINGS.lease_ms + 100))
        if ms <= SETTINGS.lease_ms + 100:
            return
        assert not agent.serves
        others = [name for name in NAMES if name != agent.state.broker]
        for bundle, now in sorted(self.table.items()):
            if agent.state.broker in (now.dstBroker, now.sourceBroker) and now.state not in (
                ServiceUnitState.Free,
                ServiceUnitState.Deleted,
            ):
                self.override(bundle, now, self.random.choice(others))


step = st.tuples(st.sampled_from(OPS), st.integers(0, 40), st.sampled_from(NAMES))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(step, min_size=5, max_size=40))
def test_no_interleaving_makes_two_agents_serve_the_same_bundle(
    seed: int, steps: list[tuple[str, int, str]]
) -> None:
    world = World(seed)
    for op, pick, broker in steps:
        if op == "hang":
            world.hang(world.agents[NAMES.index(broker)], 500 + 150 * pick)
        elif op == "wait":
            world.pass_time(50 * pick)
        else:
            world.do(op, pick, broker)
            world.pass_time(100 * (pick % 3))
    world.pass_time(10_000)
    settled = {
        (bundle, now.dstBroker)
        for bundle, now in world.table.items()
        if now.state == ServiceUnitState.Owned
    }
    served = {(b, agent.state.broker) for agent in world.agents for b in agent.serves}
    assert served == settled


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.lists(step, min_size=5, max_size=25), st.integers(0, 1_000))
def test_losing_records_change_nothing(
    seed: int, steps: list[tuple[str, int, str]], place: int
) -> None:
    world = World(seed)
    for op, pick, broker in steps:
        if op not in ("hang", "stale", "garbage"):
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
