"""The batch-cut invariant and replay: the same log gives the same bytes (design.md 3.1)."""

from __future__ import annotations

import random

import pytest

from controller.core.state import encode_state
from controller.core.step import step
from controller.strategies.registry import PLACE, SHED
from tests.world import World, replay, serving, world


@pytest.fixture(scope="module", params=[1, 2, 3])
def busy(request: pytest.FixtureRequest) -> World:
    """Assignments, transfers, a split, a death, junk: everything that the log can hold."""
    w = world(brokers=5, bundles=24, seed=request.param)
    w.run(1_500).ask(list(w.bundles))
    w.run(6_000)
    heavy = next(iter(w.bundles))
    w.bundles[heavy] = 60_000.0
    w.run(6_000)
    w.append(w.settings.reports_topic, "main/b1", b"{not json")
    w.append(w.settings.reports_topic, None, b"{}")
    w.append(w.settings.channel_topic, "junk", b'{"state":"Nope"}')
    w.silent.add("b2")
    w.run(12_000)
    kinds = {d["kind"] for d in w.decisions}
    assert {"assign", "transfer", "split", "override"} <= kinds, f"seed {w.seed}: {kinds}"
    return w


def random_cuts(log_length: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return sorted(rng.sample(range(1, log_length), rng.randrange(1, log_length // 2)))


def test_five_cuts_of_one_log_give_identical_bytes(busy: World) -> None:
    n = len(busy.log)
    one_batch = replay(busy.log, [], busy.settings)

    assert replay(busy.log, list(range(1, n)), busy.settings) == one_batch
    for seed in (11, 12, 13):
        assert replay(busy.log, random_cuts(n, seed), busy.settings) == one_batch, f"seed {seed}"


def test_rows_of_a_group_may_come_in_any_order(busy: World) -> None:
    cuts = random_cuts(len(busy.log), 21)
    in_order = replay(busy.log, cuts, busy.settings)

    assert replay(busy.log, cuts, busy.settings, random.Random(5)) == in_order


def test_replay_of_a_batch_gives_identical_bytes_and_leaves_the_state_alone(busy: World) -> None:
    state = busy.state
    before = encode_state(state)
    batch = [r for r in busy.log if r.partition == 1][:5]
    first = step(state, batch, busy.now_ms, busy.settings)
    second = step(state, batch, busy.now_ms, busy.settings)

    assert encode_state(first.state) == encode_state(second.state)
    assert (first.records, first.rounds) == (second.records, second.rounds)
    assert encode_state(state) == before


def test_records_that_come_twice_change_nothing(busy: World) -> None:
    result = step(busy.state, busy.log[-50:], busy.now_ms, busy.settings)

    assert result.records == ()
    assert result.rounds == ()
    assert result.snapshot.counters["repeated_records"] >= 50


def test_the_recorded_run_and_its_replay_agree(busy: World) -> None:
    writes = [w.decision_id for r in busy.results for w in r.records]
    out, _ = replay(busy.log, [], busy.settings)

    assert writes
    assert all(f'"{decision}"'.encode() in out for decision in writes)


@pytest.mark.parametrize("place", sorted(PLACE))
@pytest.mark.parametrize("shed", sorted(SHED))
def test_every_strategy_decides_alike_however_the_log_is_cut(place: str, shed: str) -> None:
    """A death and a return in it; what strategies remember goes through the blob at each cut."""
    w = serving(world(brokers=4, bundles=24, place=place, shed=shed))
    w.run(4_000)
    w.stop("b1")
    w.run(7_000)
    w.start("b1")
    w.run(5_000)

    assert len(w.decisions) > 24
    cuts = list(range(7, len(w.log), 13))
    assert replay(w.log, cuts, w.settings) == replay(w.log, [], w.settings)
