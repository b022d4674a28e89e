"""The simulated load is a pure function, adds up over splits, and has the shape it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.bundles import BundleNameError, split_name
from controller.sim.workload import Workload, WorkloadSpec

SPEC = WorkloadSpec()
WORKLOAD = Workload(SPEC)
NAMES = WORKLOAD.bundle_names()
BROKER_RATE = 60_000.0  # capacity of the demo's brokers, msg/s
BROKERS = 6


def total(workload: Workload, bundles: list[str], t_ms: float) -> np.ndarray:
    load = workload.rates(bundles, t_ms)
    return load.rate_in + load.rate_out


def test_two_processes_compute_the_same_load() -> None:
    again = Workload(WorkloadSpec())
    for t_ms in (0.0, 1.5, 61_234.0, 1e7):
        one, two = WORKLOAD.rates(NAMES, t_ms), again.rates(NAMES, t_ms)
        for name in ("rate_in", "rate_out", "throughput_in", "throughput_out", "topics"):
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def test_another_seed_is_another_load() -> None:
    other = Workload(WorkloadSpec(seed=SPEC.seed + 1))
    assert not np.allclose(total(WORKLOAD, NAMES, 0.0), total(other, NAMES, 0.0))


@settings(deadline=None)
@given(st.integers(0, len(NAMES) - 1), st.floats(0.01, 0.99), st.floats(0, 200_000))
def test_the_children_of_a_split_share_out_what_the_parent_had(
    index: int, cut: float, t_ms: float
) -> None:
    parent = NAMES[index]
    namespace, lower, upper = split_name(parent)
    at = lower + max(1, int((upper - lower) * cut))
    children = [f"{namespace}/0x{lower:08x}_0x{at:08x}", f"{namespace}/0x{at:08x}_0x{upper:08x}"]
    whole, parts = WORKLOAD.rates([parent], t_ms), WORKLOAD.rates(children, t_ms)
    assert int(parts.topics.sum()) == int(whole.topics[0])
    assert parts.rate_in.sum() == pytest.approx(whole.rate_in[0])
    assert parts.throughput_out.sum() == pytest.approx(whole.throughput_out[0])
    hashes, rates = WORKLOAD.topic_rates(parent, t_ms)
    of_children = [WORKLOAD.topic_rates(child, t_ms) for child in children]
    assert np.concatenate([one[0] for one in of_children]).tolist() == hashes.tolist()
    assert np.concatenate([one[1] for one in of_children]).tolist() == rates.tolist()
    assert len(hashes) == len(rates) == int(whole.topics[0])
    assert rates.sum() == pytest.approx(whole.rate_in[0] + whole.rate_out[0])


def test_the_growing_bundle_passes_the_split_threshold_at_its_share_of_the_run() -> None:
    def topics(share: float) -> int:
        load = WORKLOAD.rates([WORKLOAD.growing_bundle], share * SPEC.run_ms)
        return int(load.topics[0])

    assert topics(SPEC.growing_at_share - 0.02) <= SPEC.growing_topics
    assert topics(SPEC.growing_at_share + 0.02) > SPEC.growing_topics
    half = total(WORKLOAD, [WORKLOAD.growing_bundle], SPEC.run_ms)
    assert half[0] > total(WORKLOAD, [WORKLOAD.growing_bundle], 0.0)[0]


def test_no_other_bundle_ever_has_as_many_topics() -> None:
    others = [name for name in NAMES if name != WORKLOAD.growing_bundle]
    assert WORKLOAD.rates(others, SPEC.run_ms).topics.max() < SPEC.growing_topics


def test_the_halves_of_the_growing_bundle_need_no_second_split() -> None:
    namespace, lower, upper = split_name(WORKLOAD.growing_bundle)
    at = (lower + upper) // 2
    halves = [f"{namespace}/0x{lower:08x}_0x{at:08x}", f"{namespace}/0x{at:08x}_0x{upper:08x}"]
    assert WORKLOAD.rates(halves, 10.0 * SPEC.run_ms).topics.max() <= SPEC.growing_topics * 1.2


def test_the_hot_spot_moves() -> None:
    early, late = total(WORKLOAD, NAMES, 0.0), total(WORKLOAD, NAMES, SPEC.run_ms / 2)
    assert abs(late - early).max() > 0.02 * BROKER_RATE


def test_brokers_stand_near_the_middle_and_no_bundle_is_a_lump() -> None:
    for t_ms in np.linspace(0.0, SPEC.run_ms, 9):
        rates = total(WORKLOAD, NAMES, float(t_ms))
        assert 0.45 < rates.sum() / BROKERS / BROKER_RATE < 0.62
        assert rates.max() < 0.13 * BROKER_RATE


def test_an_assignment_that_knows_no_load_is_clearly_uneven() -> None:
    rates = total(WORKLOAD, NAMES, 0.0)
    dealt = np.array([rates[i::BROKERS].sum() for i in range(BROKERS)])
    assert dealt.max() / dealt.mean() > 1.3


def test_the_greatest_hash_belongs_to_the_last_bundle() -> None:
    whole = [f"{SPEC.namespaces[0]}/0x00000000_0xffffffff"]
    own = [name for name in NAMES if name.startswith(SPEC.namespaces[0] + "/")]
    assert WORKLOAD.rates(whole, 0.0).topics[0] == WORKLOAD.rates(own, 0.0).topics.sum()


def test_an_unknown_namespace_is_idle_and_a_bad_name_is_refused() -> None:
    load = WORKLOAD.rates(["x/y/0x00000000_0xffffffff"], 0.0)
    assert load.rate_in[0] == 0.0 and load.topics[0] == 0
    with pytest.raises(BundleNameError):
        WORKLOAD.rates(["nonsense"], 0.0)
