"""The exploration itself: small bounds to the end, and that what it leaves out decides nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from typer.testing import CliRunner

from controller.agent.state import Counts
from controller.core.state import ClusterState
from controller.core.state.columns import Columns
from controller.sim.explore import __main__ as command
from controller.sim.explore import agent as agents
from controller.sim.explore import leader as leaders
from controller.sim.explore.agent import Agent
from controller.sim.explore.bounds import (
    CRASH_AGENT,
    CRASH_LEADER,
    DUPLICATE,
    QUICK,
    REORDER,
    STANDBY,
    Bounds,
)
from controller.sim.explore.records import Sign
from controller.sim.explore.search import Search, pack, replay, unpack
from controller.sim.explore.tell import tell
from controller.sim.explore.times import AGENT_NOW_MS, CORE_NOW_MS, UNIT_MS
from controller.sim.explore.world import SPLIT, TRANSFERS, State, World

SAMPLE = 150  # parts that are bent, of each kind


@cache
def explored() -> Search:
    """A small scope, to look at its parts."""
    search = Search(Bounds("sample", 1, 0, 1))
    search.run()
    return search


@pytest.mark.slow
@pytest.mark.parametrize("bounds", QUICK, ids=lambda one: one.name)
def test_no_reachable_state_breaks_a_rule(bounds: Bounds) -> None:
    facts = Search(bounds).run()
    print(f"{bounds.text()}: {facts.states:,} states, {facts.seconds:.1f} s")
    if facts.violation is not None:
        pytest.fail("\n".join([facts.violation, *tell(bounds, facts.path)]))
    assert facts.is_complete and facts.settled == facts.states


def test_a_batch_that_is_run_again_gives_the_same() -> None:
    kinds = frozenset({CRASH_LEADER, STANDBY, DUPLICATE, REORDER, CRASH_AGENT})
    facts = Search(Bounds("pure", 1, 0, 1, kinds), is_checking_purity=True).run()
    assert facts.violation is None and facts.step_calls > 500


def test_a_path_can_be_followed_again() -> None:
    world = World(QUICK[0])
    state, path = world.start(), []
    for _ in range(30):
        events, following = zip(*world.successors(state), strict=True)
        wanted = world.fair(state)[0]
        path.append(events.index(wanted))
        state = following[path[-1]]
    steps, again, end = replay(QUICK[0], tuple(path))
    assert len(steps) == 30 and end == "" and again.is_settled(steps[-1][1])
    lines = tell(QUICK[0], tuple(path))
    assert lines[-1] == "end of the path" and any("unit of time" in line for line in lines)
    assert any("b1 serves" in line for line in lines)


def test_what_comes_when_nothing_goes_wrong_is_one_of_the_successors() -> None:
    search = explored()
    chance = random.Random(5)
    packed = chance.sample(sorted(search.seen), SAMPLE)
    for state in map(unpack, packed):
        assert search.world.fair(state) in list(search.world.successors(state))


def test_a_packed_state_is_the_same_state() -> None:
    state = State(2**26 - 1, 2**22 - 1, 0, 5, 2**18 - 1, 7, 2**10 - 1)
    assert unpack(pack(state)) == state
    with pytest.raises(OverflowError):
        pack(state.with_log(2**26))


def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch) -> None:
    app = command.typer.Typer()
    app.command()(command.main)
    result = CliRunner().invoke(app, ["--transfers", "1", "--faults", "0", "--json"])
    (facts,) = json.loads(result.stdout)
    assert result.exit_code == 0 and facts["violation"] is None and facts["states"] > 50
    assert facts["settled"] == facts["states"] and facts["is_complete"]


# ------------------------------------------------- what is left out of a state decides nothing


def test_agents_that_differ_in_what_is_left_out_do_the_same() -> None:
    parts, chance = explored().world.parts, random.Random(1)
    batches = [parts.words[n] for n in range(len(parts.words))]
    for agent in chance.sample(parts.agents.items, SAMPLE):
        for happens in _agent_events(agent, chance.sample(batches, 5)):
            expected = agents.aged(happens(agent))
            found = agents.aged(happens(_bent_agent(agent, chance)))
            assert agents.key_of(found) == agents.key_of(expected)
            assert agents.serves(found) == agents.serves(expected)


def test_cores_that_differ_in_what_is_left_out_decide_the_same() -> None:
    parts, chance = explored().world.parts, random.Random(2)
    signs = (Sign("b1", "up", "stable", 1), Sign("b2", "up", "jittery", 0))
    for leader in chance.sample(parts.cores.items, SAMPLE):
        rows = chance.choice(parts.batches.items)
        order = chance.choice([(), (SPLIT,), *((one,) for one in TRANSFERS)])
        heard = signs[: chance.randint(0, 2)]
        given = (rows, heard, leaders.ticks(leader) + order)
        expected = leaders.decide(leader.state, *given)
        found = leaders.decide(_bent_state(leader.state, chance), *given)
        assert (found.key, found.writes) == (expected.key, expected.writes)


def _agent_events(agent: Agent, batches: list[tuple]) -> Iterator[Callable[[Agent], Agent]]:
    for batch in ((), *batches):
        yield lambda one, batch=batch: agents.read(one, batch)
    yield agents.begin_flush
    yield agents.flushed
    yield agents.flush_failed
    yield agents.poll_failed
    for close in agent.closes:
        yield lambda one, bundle=close.bundle: agents.close_ended(one, bundle)
        yield lambda one, bundle=close.bundle: agents.close_ended(one, bundle, "failed")


def _bent_agent(agent: Agent, chance: random.Random) -> Agent:
    """Older where it is as old as can be told, due for longer where it is due; other totals."""

    def older(at_ms: int | None, oldest_ms: int) -> int | None:
        is_older = at_ms is not None and at_ms <= oldest_ms
        return at_ms - chance.randint(0, 5) * UNIT_MS if is_older and at_ms else at_ms

    its, oldest_ms = agent.core, agents._OLDEST_MS
    changes: dict = {name: older(getattr(its, name), oldest_ms) for name in agents._PAST}
    changes |= {name: older(getattr(its, name), AGENT_NOW_MS) for name in agents._DUE}
    for name in agents._BY_BUNDLE:
        limit_ms = AGENT_NOW_MS if name in agents._DUE_BY_BUNDLE else oldest_ms
        changes[name] = {key: older(at, limit_ms) for key, at in getattr(its, name).items()}
    if its.heard_wait is not None:
        changes["heard_wait"] = tuple(older(at, oldest_ms) for at in its.heard_wait)
    counts = Counts(accepted=chance.randint(0, 9), reasons={"stale_version": 3})
    bent = replace(its, **changes, sequence=chance.randint(0, 10**6), counts=counts)
    return replace(agent, core=bent)


def _bent_state(state: ClusterState, chance: random.Random) -> ClusterState:
    """As an agent; also with the brokers in other slots, and with other totals."""
    bent = state.copy()
    oldest_ms = CORE_NOW_MS - leaders.CORE_AGE_MAX * UNIT_MS
    for table in (bent.brokers, bent.bundles):
        for name in leaders._time_columns(table):
            for slot, at_ms in enumerate(table[name].tolist()):
                if at_ms and at_ms <= oldest_ms:
                    table[name][slot] = at_ms - chance.randint(0, 5) * UNIT_MS
    memory = bent.memory
    for name in ("started_ms", "grace_ms"):
        if getattr(memory, name) and getattr(memory, name) <= oldest_ms:
            setattr(memory, name, getattr(memory, name) - chance.randint(0, 5) * UNIT_MS)
    for move in memory.moves.values():
        move.decided_ms -= chance.randint(0, 5) * UNIT_MS
        if move.seen_ms:
            move.seen_ms, move.version, move.decision_id = CORE_NOW_MS, 77, "another"
    memory.counters["reports"] = chance.randint(0, 10**6)
    memory.round_number = chance.randint(0, 10**6)
    _swap_brokers(bent)
    return bent


def _swap_brokers(state: ClusterState) -> None:
    """The brokers change their slots."""
    names = state.brokers.names[::-1]
    if len(names) != 2:
        return
    arrays = {name: state.brokers[name][::-1].copy() for name in state.brokers.arrays}
    swapped = Columns(state.brokers.layout)
    swapped.restore(names, {name: slot for slot, name in enumerate(names)}, arrays)
    state.brokers = swapped
    for column in state.bundles.layout:
        if column.dtype == "i2":
            slots = state.bundles[column.name]
            slots[slots >= 0] = 1 - slots[slots >= 0]


def test_a_search_that_is_bounded_says_that_it_is_not_complete() -> None:
    facts = Search(QUICK[0], states_max=1_000).run()
    assert not facts.is_complete and facts.violation is None


def test_a_search_finds_an_event_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(agents.core, "handle", raises)
    facts = Search(QUICK[0]).run()
    assert facts.violation == "ValueError: broken on purpose"


def test_successors_are_few() -> None:
    world = World(QUICK[0])
    assert len(list(islice(world.successors(world.start()), 50))) < 20
