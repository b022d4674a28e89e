"""Mutated records: none stops the core, each bad one is a dead letter with a reason.

10,000 load reports, each beside a good report of another broker, which must count; 100,000
channel records, beside a second implementation of the fold that says what must become of them.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.channel.table import ChannelTable
from controller.core.inputs import RawRecord
from controller.core.state import decode_state, encode_state, new_state
from controller.core.step import step
from tests.samples_of_reports import good_report, mutated, spoiled
from tests.world import CLUSTER, SETTINGS, START_MS, bundle_names

EXAMPLES = 100
RECORDS_PER_EXAMPLE = 100  # 10,000 in all


@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_mutated_reports_never_stop_the_core_and_never_disappear(seed: int) -> None:
    rng = random.Random(seed)
    state = new_state(CLUSTER, SETTINGS)
    records = []
    for i in range(RECORDS_PER_EXAMPLE):
        key, value = mutated(rng, i)
        records.append(RawRecord(START_MS + i, "load-reports", 0, i, key, value))
        good = good_report("good", i + 1, START_MS + i)
        records.append(RawRecord(START_MS + i, "load-reports", 1, i, f"{CLUSTER}/good", good))
    result = step(state, records, START_MS, SETTINGS)

    assert all(r.reason and r.detail for r in result.rejects)
    assert all(r.partition == 0 for r in result.rejects)
    counters = result.snapshot.counters
    taken = counters["reports"] + counters.get("duplicate_reports", 0)
    heartbeats_and_cleared = 2 * RECORDS_PER_EXAMPLE - taken - len(result.rejects)
    assert heartbeats_and_cleared >= 0
    assert taken >= RECORDS_PER_EXAMPLE  # the good ones beside them
    brokers = result.state.brokers
    assert int(brokers["sequence"][brokers.slots["good"]]) == RECORDS_PER_EXAMPLE
    again = decode_state(encode_state(result.state), SETTINGS)
    assert encode_state(again) == encode_state(result.state)


def test_most_mutations_are_really_bad() -> None:
    """The fuzz test would prove little if most mutated reports were good."""
    rng = random.Random(4)
    records = [RawRecord(START_MS, "load-reports", 0, i, *mutated(rng, i)) for i in range(1_000)]
    result = step(new_state(CLUSTER, SETTINGS), records, START_MS, SETTINGS)
    reasons = {r.reason for r in result.rejects}

    assert len(result.rejects) > 500
    assert len(reasons) >= 8, reasons


CHANNEL_EXAMPLES = 100
CHANNEL_RECORDS = 1_000  # 100,000 in all
KEYS = (*bundle_names("t/n", 16), *bundle_names("pulsar/system", 4))
STATES = ("Free", "Owned", "Assigning", "Releasing", "Splitting", "Deleted")


def channel_record(rng: random.Random, versions: Counter[str]) -> tuple[str | None, bytes | None]:
    """(key, value): half of them good, with versions that often follow; the others spoiled."""
    key = rng.choice(KEYS)
    versions[key] += rng.choice((0, 1, 1, 1, 1, 2))
    low, high = sorted(rng.sample(range(0, 1 << 32, 1 << 24), 2))
    document = {
        "state": rng.choice(STATES),
        "dstBroker": rng.choice((None, "b0", "b1", "b2", "")),
        "sourceBroker": rng.choice((None, "b0", "b1", "b2")),
        "splitServiceUnitToDestBroker": {f"0x{low:08x}_0x{high:08x}": None},
        "force": rng.random() < 0.3,
        "timestamp": START_MS,
        "versionId": versions[key],
        "decisionId": "d",
    }
    roll = rng.random()
    if roll < 0.02:
        return key, None
    if roll < 0.5:
        return key, json.dumps(document).encode()
    if roll < 0.55:
        return rng.choice((None, "", "t/n/oops", "x" * 5_000, "\ud800")), spoiled(rng, document)
    return key, spoiled(rng, document)


@given(seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=CHANNEL_EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_mutated_channel_records_end_where_a_second_fold_puts_them(seed: int) -> None:
    rng = random.Random(seed)
    table, versions, records = ChannelTable(limits=SETTINGS.limits), Counter[str](), []
    for i in range(CHANNEL_RECORDS):
        key, value = channel_record(rng, versions)
        records.append(RawRecord(START_MS + i, SETTINGS.channel_topic, 0, i, key, value))
        table.apply_raw(key, value, START_MS + i)
    result = step(new_state(CLUSTER, SETTINGS), records, START_MS, SETTINGS)

    assert Counter(r.reason for r in result.rejects) == table.unreadable
    assert all(r.detail for r in result.rejects)
    counters = result.snapshot.counters
    assert counters.get("losing_records", 0) == sum(table.losing.values())
    bundles = result.state.bundles
    known = {name for name, slot in bundles.slots.items() if bundles["state"][slot]}
    assert known == set(table.records)
    assert set(result.state.memory.tainted) == set(table.tainted)
    again = decode_state(encode_state(result.state), SETTINGS)
    assert encode_state(again) == encode_state(result.state)


def test_the_channels_fuzz_is_neither_all_bad_nor_all_good() -> None:
    rng, table, versions = random.Random(4), ChannelTable(), Counter[str]()
    for i in range(5_000):
        table.apply_raw(*channel_record(rng, versions), i)

    assert table.accepted > 500
    assert len(table.losing) == 3
    assert len(table.unreadable) >= 8, table.unreadable
