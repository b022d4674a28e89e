"""What holds in a world of disorder: the fold, the writes, the limits, the cuts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from controller.channel.table import ChannelTable
from controller.core.fold.ownership import channel_record
from controller.core.state import ClusterState
from controller.core.work import Work
from controller.wire.channel import ServiceUnitState, decode_channel
from tests.core.disorder import disorder
from tests.core.test_determinism import random_cuts
from tests.world import SETTINGS, World, replay

ACTIONS = replace(
    SETTINGS.actions,
    tombstone_delay_ms=5_000,
    in_flight_timeout_ms=4_000,
    overrides_per_round_max=4,
)
SEEDS = range(1, 9)
S = ServiceUnitState


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"seed {seed}")
def wild(request: pytest.FixtureRequest) -> World:
    return disorder(request.param, actions=ACTIONS)


def test_the_disorder_is_worth_its_name() -> None:
    kinds: set[str] = set()
    counters: dict[str, int] = {}
    for seed in SEEDS:
        w = disorder(seed, actions=ACTIONS)
        kinds |= {f"{d['kind']} {d['reason']}" for d in w.decisions}
        for name, count in w.results[-1].snapshot.counters.items():
            counters[name] = counters.get(name, 0) + count
    assert kinds >= {
        "assign unowned",
        "override orphan",
        "override stuck",
        "reassert tainted",
        "split admin",
        "tombstone old",
        "transfer admin",
        "transfer drain",
        "transfer leaving",
        "transfer pinned",
        "unload admin",
    }
    assert counters["commands_accepted"] > 50 < counters["commands_refused"]
    assert counters["sink_refusals"] > 0 < counters["lost_races"]
    assert counters["brokers_gone"] > 0 < counters["brokers_leaving"]


def test_any_cut_of_the_log_gives_identical_bytes(wild: World) -> None:
    n = len(wild.log)
    one_batch = replay(wild.log, [], wild.settings)

    assert replay(wild.log, list(range(1, n)), wild.settings) == one_batch
    assert replay(wild.log, random_cuts(n, wild.seed), wild.settings) == one_batch


def test_the_ownership_table_equals_the_channels(wild: World) -> None:
    """Two implementations of the fold: columns of numpy, and a dict of records."""
    table = ChannelTable()
    for r in wild.log:
        if r.topic == wild.settings.channel_topic:
            table.apply_raw(r.key, r.value, r.ingest_ms)
    work = Work(wild.state, wild.settings, wild.settings)
    bundles = wild.state.bundles
    ours = {name: channel_record(work, slot) for name, slot in bundles.slots.items()}
    ours = {name: record for name, record in ours.items() if record is not None}

    assert sorted(ours) == sorted(table.records)
    for name, record in ours.items():
        theirs = table.records[name]
        assert (record.state, record.versionId) == (theirs.state, theirs.versionId), name
        assert (record.dstBroker, record.sourceBroker) == (theirs.dstBroker, theirs.sourceBroker)
        serving = int(bundles["serving"][bundles.slots[name]])
        assert (wild.state.brokers.names[serving] if serving >= 0 else None) == table.owner(name)
        assert int(bundles["since_ms"][bundles.slots[name]]) == table.since_ms(name)
    assert sorted(wild.state.memory.tainted) == sorted(table.tainted)
    counters = wild.results[-1].snapshot.counters
    for reason, count in table.losing.items():
        assert counters[f"losing_records_{reason}"] == count


def test_nothing_is_written_for_a_bundle_while_a_tombstone_is_on_its_way(wild: World) -> None:
    buried: dict[str, str] = {}  # bundle -> decision id
    for record, result in zip(wild.log, wild.results, strict=True):
        if record.topic == wild.settings.channel_topic and record.value is None:
            buried.pop(record.key, None)
        for bundle in [b for b in buried if b not in result.state.memory.moves]:
            del buried[bundle]  # refused by the sink
        for write in result.records:
            assert write.key not in buried, f"{write.key} at {record.ingest_ms}"
            if write.value is None:
                assert write.key not in result.state.memory.requests
                buried[write.key] = write.decision_id


def test_a_version_is_never_skipped_nor_written_twice(wild: World) -> None:
    """Every write follows the record that stood when it was decided."""
    table = ChannelTable()
    for record, result in zip(wild.log, wild.results, strict=True):
        stood = dict(table.records)
        if record.topic == wild.settings.channel_topic:
            table.apply_raw(record.key, record.value, record.ingest_ms)
        keys = [write.key for write in result.records]
        assert len(keys) == len(set(keys))
        for write in result.records:
            new = decode_channel(write.value)
            if new is None:
                continue
            olds = (stood.get(write.key), table.records.get(write.key))
            assert new.versionId - 1 in {0 if old is None else old.versionId for old in olds}


def test_limits_of_what_is_on_its_way_hold(wild: World) -> None:
    limit = ACTIONS.overrides_per_round_max
    for result in wild.results:
        pending = [m for m in result.state.memory.moves.values() if m.seen_ms == 0]
        forced = [m for m in pending if m.kind in ("override", "reassert", "tombstone")]
        assert len(forced) <= limit


def test_brokers_that_drain_or_leave_are_given_nothing_by_the_core(wild: World) -> None:
    """Neither before nor after the record that brought the decision."""
    for before, result in itertools.pairwise(wild.results):
        states = (before.state, result.state)
        for write in result.records:
            new = decode_channel(write.value)
            if new is None or new.state not in (S.Assigning, S.Releasing) or not new.dstBroker:
                continue
            assert not all(new.dstBroker in state.memory.drains for state in states)
            assert not all(_status(state, new.dstBroker) for state in states)


def _status(state: ClusterState, broker: str) -> int:
    slot = state.brokers.slots.get(broker)
    return 0 if slot is None else int(state.brokers["status"][slot])
