"""10,000 mutated load reports: none stops the core, each bad one is a dead letter with a reason.

Every mutated record stands beside a good report of another broker, which must count.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.inputs import RawRecord
from controller.core.state import decode_state, encode_state, new_state
from controller.core.step import step
from tests.samples_of_reports import good_report, mutated
from tests.world import CLUSTER, SETTINGS, START_MS

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
