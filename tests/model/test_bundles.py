"""Bundle names, lookup and split arithmetic: Pulsar's own answers, then properties."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.boundaries import range_midpoint, topic_count_boundary
from controller.model.bundles import (
    BUNDLES_PER_NAMESPACE_MAX,
    FULL_LOWER,
    FULL_UPPER,
    Bundle,
    BundleNameError,
    HashRange,
    bundle_index,
    bundles_of,
    equal_boundaries,
    full_topic_name,
    split_name,
    split_range,
    topic_hash,
    topic_namespace,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "pulsar"
hashes = st.integers(FULL_LOWER, FULL_UPPER)
boundary_lists = st.sets(st.integers(1, FULL_UPPER - 1), max_size=40).map(
    lambda inner: [FULL_LOWER, *sorted(inner), FULL_UPPER]
)
ranges = st.tuples(hashes, hashes).filter(lambda p: p[0] < p[1]).map(lambda p: HashRange(*p))


def golden(name: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(scenario id, input tick, output tick) of every tick in a golden file."""
    found = []
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            pairs = zip(row["in"]["ticks"], row["out"]["ticks"], strict=True)
            found += [(row["in"]["id"], asked, answered) for asked, answered in pairs]
    return found


def hex_list(boundaries: list[int]) -> list[str]:
    return [f"0x{b:08x}" for b in boundaries]


def test_bundle_hash_answers_as_pulsar() -> None:
    cases = golden("BundleHash")
    assert len(cases) == 150
    for scenario, asked, answered in cases:
        if "numBundles" in asked:
            boundaries = equal_boundaries(asked["numBundles"])
        else:
            boundaries = [int(b, 16) for b in asked["boundaries"]]
        assert hex_list(boundaries) == answered["boundaries"], scenario
        bundles = [str(b) for b in bundles_of(asked["namespace"], boundaries)]
        assert bundles == answered["bundles"], scenario
        for topic in answered["topics"]:
            name = full_topic_name(topic["topic"])
            assert topic_hash(name) == topic["hash"], scenario
            # An error stands there exactly for topics of another namespace.
            is_ours = topic_namespace(name) == asked["namespace"]
            assert is_ours == ("error" not in topic), scenario
            if is_ours:
                index = bundle_index(boundaries, topic_hash(name))
                assert bundles[index] == topic["bundle"], scenario


def test_split_algorithms_answer_as_pulsar() -> None:
    cases = [c for c in golden("BundleSplitAlgorithm") if c[1]["algorithm"] in ALGORITHMS]
    assert len(cases) == 51
    for scenario, asked, answered in cases:
        bundle = Bundle.parse(asked["bundle"])
        topics = [t for t in asked["topics"] if topic_namespace(t) == bundle.namespace]
        inside = [h for h in map(topic_hash, topics) if bundle.range.contains(h)]
        assert len(inside) == answered["topicsInBundle"], scenario
        boundary = ALGORITHMS[asked["algorithm"]](bundle.range, sorted(inside))
        expected = answered["positions"]
        assert (None if boundary is None else [boundary]) == expected, scenario
        if boundary is not None:
            children = [str(child) for child in split_range(bundle.range, [boundary])]
            assert children == answered["children"], scenario


ALGORITHMS: dict[str, Any] = {
    "range_equally_divide": lambda r, hashes: range_midpoint(r.lower, r.upper),
    "topic_count_equally_divide": lambda r, hashes: topic_count_boundary(hashes),
}


@given(boundary_lists, hashes)
@settings(print_blob=True, deadline=None)
def test_lookup_agrees_with_a_linear_scan(boundaries: list[int], topic: int) -> None:
    bundles = bundles_of("t/n", boundaries)
    holders = [i for i, b in enumerate(bundles) if b.range.contains(topic)]
    assert holders == [bundle_index(boundaries, topic)]


@given(boundary_lists, st.data())
@settings(print_blob=True, deadline=None)
def test_lookup_at_the_boundaries_themselves(boundaries: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(boundaries) - 1))
    expected = min(at, len(boundaries) - 2)
    assert bundle_index(boundaries, boundaries[at]) == expected


@pytest.mark.parametrize("topic", [0, 9, 20, FULL_UPPER])
def test_lookup_outside_the_boundaries_is_an_error(topic: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        bundle_index([10, 15, 20], topic)


@given(ranges, st.data())
@settings(print_blob=True, deadline=None)
def test_children_cover_the_range_exactly(parent: HashRange, data: st.DataObject) -> None:
    if not parent.splittable:
        return
    inside = st.integers(parent.lower + 1, parent.upper - 1)
    cuts = data.draw(st.lists(inside, min_size=1, max_size=8, unique=True))
    children = split_range(parent, cuts)
    assert len(children) == len(cuts) + 1
    assert (children[0].lower, children[-1].upper) == (parent.lower, parent.upper)
    assert all(a.upper == b.lower for a, b in pairwise(children))
    probe = data.draw(hashes)
    assert sum(c.contains(probe) for c in children) == parent.contains(probe)


@given(ranges)
@settings(print_blob=True, deadline=None)
def test_midpoint_splits_what_can_be_split(parent: HashRange) -> None:
    middle = range_midpoint(parent.lower, parent.upper)
    if parent.splittable:
        first, second = split_range(parent, [middle])
        sizes = first.upper - first.lower, second.upper - second.lower
        assert 0 <= sizes[1] - sizes[0] <= 1
    else:
        with pytest.raises(ValueError, match="strictly inside"):
            split_range(parent, [middle])


@pytest.mark.parametrize("cuts", [[], [4], [8], [3], [9], [5, 5], [5, 8]])
def test_bad_boundaries_are_refused(cuts: list[int]) -> None:
    with pytest.raises(ValueError, match="boundar"):
        split_range(HashRange(4, 8), cuts)


@given(st.lists(hashes, max_size=30))
@settings(print_blob=True, deadline=None)
def test_topic_count_boundary_halves_the_topics(topics: list[int]) -> None:
    topics.sort()
    boundary = topic_count_boundary(topics)
    if len(topics) < 2:
        assert boundary is None
        return
    assert boundary is not None
    middle = len(topics) // 2
    assert topics[middle - 1] <= boundary <= topics[middle]


@given(st.integers(1, 5_000))
@settings(print_blob=True, deadline=None, max_examples=30)
def test_equal_boundaries_ascend_and_span_all(n: int) -> None:
    boundaries = equal_boundaries(n)
    assert len(boundaries) == n + 1
    assert (boundaries[0], boundaries[-1]) == (FULL_LOWER, FULL_UPPER)
    assert boundaries == sorted(set(boundaries))


@pytest.mark.parametrize("n", [0, -1, BUNDLES_PER_NAMESPACE_MAX + 1])
def test_absurd_bundle_counts_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="allowed"):
        equal_boundaries(n)


@given(ranges)
@settings(print_blob=True, deadline=None)
def test_names_survive_a_round_trip(parent: HashRange) -> None:
    bundle = Bundle("tenant/ns-1", parent)
    assert Bundle.parse(str(bundle)) == bundle
    assert HashRange.parse(str(parent)) == parent
    assert split_name(str(bundle)) == ("tenant/ns-1", parent.lower, parent.upper)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ns/0x00000000_0x80000000",
        "a/b/c/d/0x00000000_0x80000000",
        "t/n/0x00000000_0x8000000",
        "t/n/0x00000000_0x8000000G",
        "t/n/0x00000000_0xABCDEF00",
        "t/n/00000000_80000000",
        "t/n/0x80000000_0x00000000",
        "t/n/0x80000000_0x80000000",
        "t//0x00000000_0x80000000",
        "t/n/0x00000000_0x80000000\n",
        "t/n/0x00000000_0x80000000/",
        "t/ü/0x00000000_0x80000000",
        "t/n/0x0000000٣_0x80000000",
    ],
)
def test_other_spellings_are_no_bundle_names(name: str) -> None:
    with pytest.raises(BundleNameError):
        split_name(name)
    with pytest.raises(BundleNameError):
        Bundle.parse(name)


@pytest.mark.parametrize("text", ["", "0x00000000", "0x00000001_0x00000001", "0x1_0x2"])
def test_other_spellings_are_no_ranges(text: str) -> None:
    with pytest.raises(BundleNameError):
        HashRange.parse(text)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (-1, 4), (0, FULL_UPPER + 1)])
def test_ranges_that_cannot_be(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no hash range"):
        HashRange(*bounds)


def test_v1_and_heartbeat_names_pass() -> None:
    name = "pulsar/lab/127.0.0.1:18080/0x00000000_0xffffffff"
    assert split_name(name) == ("pulsar/lab/127.0.0.1:18080", FULL_LOWER, FULL_UPPER)
    assert topic_namespace("persistent://t/c/n/local/name") == "t/c/n"
    assert topic_namespace("non-persistent://t/n/x-partition-0") == "t/n"


@pytest.mark.parametrize("topic", ["x", "t/n/x", "kafka://t/n/x", "persistent://t/n", "://a/b/c"])
def test_short_topic_names_are_refused(topic: str) -> None:
    with pytest.raises(BundleNameError):
        topic_namespace(topic)


def test_short_topic_names_are_completed_as_pulsar_does() -> None:
    assert full_topic_name("x") == "persistent://public/default/x"
    assert full_topic_name("t/n/x") == "persistent://t/n/x"
    assert full_topic_name("non-persistent://t/n/x") == "non-persistent://t/n/x"
    for short in ("", "t/x", "t/n//x", "a/b/c/d", "t//x"):
        with pytest.raises(BundleNameError):
            full_topic_name(short)
