"""The folded channel: rules of pulsar.md 6 that a reader's table must keep, quoted one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.channel.conflict import heals, keep_old, next_version
from controller.channel.states import Storage
from controller.channel.table import ChannelTable, Loser, Outcome, serving_broker
from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitStateData,
    encode_channel,
)
from controller.wire.limits import WireLimits
from tests.channel.records import BUNDLE, LOWER, OTHER, UPPER, S, record, records

SAMPLES = Path(__file__).parents[1] / "samples"


def table_of(*steps: ServiceUnitStateData | None, storage: Storage = "log") -> ChannelTable:
    """BUNDLE's table after these records, one every 10 ms from 100 on."""
    table = ChannelTable(storage)
    for at, step in enumerate(steps):
        table.apply(BUNDLE, step, 100 + 10 * at)
    return table


def test_flows_are_accepted_and_name_who_serves() -> None:
    """Flows: assign, transfer, unload, split; only Owned dst, Releasing and Splitting src serve."""
    table = ChannelTable()
    steps = [
        (record(S.Assigning, 1, "b1"), None),
        (record(S.Owned, 2, "b1"), "b1"),
        (record(S.Releasing, 3, "b2", "b1"), "b1"),
        (record(S.Assigning, 4, "b2", "b1"), None),
        (record(S.Owned, 5, "b2", "b1"), "b2"),
        (record(S.Releasing, 6, None, "b2"), "b2"),
        (record(S.Free, 7, None, "b2"), None),
        (record(S.Assigning, 8, "b3"), None),
        (record(S.Owned, 9, "b3"), "b3"),
        (record(S.Splitting, 10, None, "b3", children=(UPPER, LOWER)), "b3"),
        (record(S.Deleted, 11, None, "b3"), None),
        (None, None),
    ]
    before = None
    for at, (step, owner) in enumerate(steps):
        outcome = table.apply(BUNDLE, step, at)
        assert outcome == Outcome(before, step)
        assert outcome.is_accepted and outcome.reason is None
        assert table.owner(BUNDLE) == owner
        assert table.owners() == ({} if owner is None else {BUNDLE: owner})
        before = step
    assert table.accepted == len(steps)
    assert not table.records and not table.losing and not table.unreadable


@pytest.mark.parametrize("state", [s for s in S if s is not S.Init])
def test_a_log_may_begin_in_a_compacted_middle(state: S) -> None:
    """The generous Init row exists because a reader may begin from a compacted middle."""
    table = ChannelTable()
    assert table.apply(BUNDLE, record(state, 41, "b1", "b2"), 5).is_accepted
    assert table.records[BUNDLE].versionId == 41
    after = next_version(table.records[BUNDLE])
    assert table.apply(BUNDLE, record(S.Owned, after, "b3", force=True), 6).is_accepted


@pytest.mark.parametrize("state", list(S))
def test_the_metadata_store_begins_at_version_one(state: S) -> None:
    """Old absent, MetadataStore -> accept iff new.v = 1, no other check."""
    table = ChannelTable("metadata")
    assert table.apply(BUNDLE, record(state, 2, "b1", "b2"), 5).losing == "not_first_version"
    assert table.apply(BUNDLE, record(state, 1, "b1", "b2"), 5).is_accepted


def test_the_first_of_two_writers_wins_and_the_bundle_is_tainted() -> None:
    """Two writers at v+1: the first in topic order wins."""
    late = record(S.Releasing, 3, "b3", "b1")
    table = table_of(record(S.Owned, 2, "b1"), first := record(S.Releasing, 3, "b2", "b1"))
    outcome = table.apply(BUNDLE, late, 500)
    assert outcome == Outcome(first, late, losing="stale_version")
    assert table.records == {BUNDLE: first}
    assert table.tainted == {BUNDLE: Loser(late, "stale_version", 500, 3)}
    assert table.losing == {"stale_version": 1}


def test_a_forced_record_above_all_losers_ends_a_taint() -> None:
    """A reader that begins with a loser takes it, and the tombstone, whatever it holds."""
    table = table_of(record(S.Owned, 2, "b1"), record(S.Owned, 2, "b2"))
    assert BUNDLE in table.tainted
    table.apply(BUNDLE, record(S.Releasing, 3, None, "b1"), 500)
    assert BUNDLE in table.tainted  # a reader that holds "Owned by b2" refuses this one
    table.apply(BUNDLE, record(S.Owned, 4, "b1", force=True), 600)
    assert not table.tainted
    table.apply(BUNDLE, record(S.Assigning, 5, "b1"), 700)
    assert table.tainted[BUNDLE].reason == "bad_transition"
    table.apply(BUNDLE, record(S.Owned, 5, "b1", force=True), 800)
    assert BUNDLE in table.tainted  # as late as the loser: whoever took that one refuses it
    assert table.apply(BUNDLE, None, 900).is_accepted
    assert not table.tainted and not table.records


def test_the_last_loser_and_the_greatest_version_are_known() -> None:
    table = table_of(record(S.Owned, 2, "b1"), record(S.Owned, 2, "b3"), record(S.Owned, 1, "b2"))
    assert table.tainted == {BUNDLE: Loser(record(S.Owned, 1, "b2"), "stale_version", 120, 2)}
    table.apply_raw(BUNDLE, b"{", 900)
    assert table.tainted == {BUNDLE: Loser(None, "malformed_json", 900, 2)}


def test_any_record_heals_what_nobody_can_read() -> None:
    table = table_of(record(S.Owned, 2, "b1"))
    table.apply_raw(BUNDLE, b"{", 500)
    assert BUNDLE in table.tainted
    table.apply(BUNDLE, record(S.Releasing, 3, "b2", "b1"), 600)
    assert not table.tainted


def test_losers_without_a_winner_taint_nothing() -> None:
    """No record stands, so there is none that a compaction could lose."""
    table = ChannelTable("metadata")
    table.apply(BUNDLE, record(S.Assigning, 2, "b1"), 1)
    table.apply_raw(OTHER, b"{", 1)
    table.apply_raw("no bundle", b"{", 1)
    assert not table.tainted and not table.records


def test_in_flight_ages_count_from_the_record_that_stands() -> None:
    """in-flight older than 30 s -> override (6.8): Assigning, Releasing and Splitting age."""
    table = ChannelTable()
    table.apply(OTHER, record(S.Splitting, 1, None, "b1"), 1_000)
    table.apply(BUNDLE, record(S.Assigning, 1, "b1"), 2_000)
    table.apply("t/ns2/0x00000000_0xffffffff", record(S.Owned, 1, "b1"), 2_000)
    table.apply(BUNDLE, record(S.Assigning, 1, "b2"), 3_000)  # loses: the age goes on
    assert table.in_flight(31_500) == [
        (BUNDLE, record(S.Assigning, 1, "b1"), 29_500),
        (OTHER, record(S.Splitting, 1, None, "b1"), 30_500),
    ]
    assert [age for _, _, age in table.in_flight(500)] == [0, 0]
    table.apply(BUNDLE, record(S.Owned, 2, "b1"), 4_000)
    table.apply(OTHER, None, 4_000)
    assert table.in_flight(5_000) == []
    assert (table.since_ms(BUNDLE), table.since_ms(OTHER)) == (4_000, None)


def test_children_have_full_names_in_order() -> None:
    """splitServiceUnitToDestBroker | map child range -> optional destination."""
    table = table_of(record(S.Splitting, 2, None, "b1", children=(UPPER, LOWER)))
    assert table.children(BUNDLE) == (f"t/ns/{LOWER}", f"t/ns/{UPPER}")
    assert table.children(OTHER) == ()
    table.apply(BUNDLE, record(S.Deleted, 3, None, "b1"), 5)
    assert table.children(BUNDLE) == ()
    assert table_of(record(S.Splitting, 2, None, "b1")).children(BUNDLE) == ()


@pytest.mark.parametrize("broker", [None, "", " "])
def test_a_blank_broker_serves_nothing(broker: str | None) -> None:
    """Owned with inactive/blank dst -> broker cleanup: nobody serves until then."""
    assert serving_broker(record(S.Owned, 1, broker, "b1")) is None
    assert serving_broker(record(S.Splitting, 1, "b1", broker)) is None


def test_versions_wrap_like_javas_long() -> None:
    """Version MAX -> MIN (overflow) -> go on."""
    table = table_of(record(S.Free, LONG_MAX), record(S.Assigning, LONG_MIN, "b1"))
    assert table.records[BUNDLE].versionId == LONG_MIN


def test_unreadable_records_are_counted_by_reason() -> None:
    table = ChannelTable(limits=WireLimits(record_bytes_max=200))
    good = encode_channel(record(S.Owned, 1, "b1"))
    refused: list[tuple[str | None, bytes | None, str]] = [
        (None, good, "missing_field"),
        ("no bundle", good, "bad_name"),
        ("no bundle", None, "bad_name"),
        (BUNDLE, b"", "malformed_json"),
        (BUNDLE, b"\xff", "not_utf8"),
        (BUNDLE, good + b" " * 200, "oversized"),
        (BUNDLE, b'{"state":"Owned"}', "missing_field"),
        (BUNDLE, b'{"state":"Init","timestamp":1,"versionId":1}', "absurd_value"),
        (BUNDLE, b'{"state":"Owned","timestamp":-1,"versionId":1}', "negative"),
        (BUNDLE, b'{"state":"Owned","timestamp":1,"versionId":1}', "missing_field"),
    ]
    for key, value, reason in refused:
        outcome = table.apply_raw(key, value, 1)
        assert outcome.unreadable is not None and not outcome.is_accepted
        assert outcome.reason == outcome.unreadable.reason == reason
    assert table.unreadable.total() == len(refused)
    assert table.unreadable["missing_field"] == 3
    assert table.apply_raw(BUNDLE, good, 1).is_accepted
    assert table.apply_raw(BUNDLE, None, 1).is_accepted
    assert (table.accepted, table.losing.total()) == (2, 0)


def everything(table: ChannelTable) -> Any:
    return (
        dict(table.records),
        {name: table.since_ms(name) for name in table.records},
        dict(table.tainted),
        table.in_flight(10_000),
        table.owners(),
        (table.accepted, dict(table.losing), dict(table.unreadable)),
    )


def test_a_copy_is_a_table_of_its_own() -> None:
    table = table_of(record(S.Assigning, 2, "b1"), record(S.Owned, 2, "b2"))
    table.apply_raw(OTHER, b"{", 1)
    other = table.copy()
    before = everything(table)
    assert everything(other) == before
    other.apply(BUNDLE, record(S.Owned, 3, "b1"), 7)
    other.apply(BUNDLE, record(S.Owned, 3, "b1"), 7)
    other.apply_raw(OTHER, b"{", 1)
    other.apply(OTHER, record(S.Assigning, 3, "b1"), 7)
    assert everything(table) == before != everything(other)


@pytest.mark.parametrize("start", [0, 1, 30, 60])
def test_a_real_channel_from_its_beginning_or_its_middle(start: int) -> None:
    """A reader that begins in the middle ends with the same owners, as far as it saw them."""
    lines = (SAMPLES / "extensible" / "state.jsonl").read_text().splitlines()
    messages = [json.loads(line) for line in lines]
    whole, table = ChannelTable(), ChannelTable()
    for at, message in enumerate(messages):
        value = message["value"]
        raw = None if value is None else json.dumps(value).encode()
        whole.apply_raw(message["key"], raw, message["publish_ms"])
        if at >= start:
            table.apply_raw(message["key"], raw, message["publish_ms"])
    assert whole.accepted > 90 and not whole.unreadable and not table.unreadable
    seen = {message["key"] for message in messages[start:]}
    assert table.records == {k: r for k, r in whole.records.items() if k in seen}
    assert table.owners() == {k: b for k, b in whole.owners().items() if k in seen}


# A deliberately simple fold: the whole history is kept, every answer is computed from it anew.

Step = tuple[str, ServiceUnitStateData | None]
steps = st.lists(
    st.tuples(st.sampled_from([BUNDLE, OTHER]), st.none() | records), min_size=1, max_size=25
)


def history_of(log: list[Step], storage: Storage, bundle: str) -> list[tuple[int, Any, str | None]]:
    """(time, record, why it lost) of one bundle, times as `table_after` gives them."""
    history: list[tuple[int, Any, str | None]] = []
    for at, (name, new) in enumerate(log):
        if name != bundle:
            continue
        won = [r for _, r, why in history if why is None]
        old = won[-1] if won else None
        history.append((at, new, keep_old(old, new, storage)))
    return history


def losers_in(history: list[tuple[int, Any, str | None]]) -> list[tuple[int, Any, str | None]]:
    """Losers that nothing has healed; where nothing stands, nothing can be lost."""
    losers: list[tuple[int, Any, str | None]] = []
    stands = None
    for at, new, why in history:
        greatest = max((r.versionId for _, r, _ in losers), default=None)
        if why is not None:
            losers += [(at, new, why)] if stands is not None else []
        elif greatest is None or heals(greatest, new):
            losers = []
        stands = stands if why is not None else new
    return losers


def check_bundle(table: ChannelTable, log: list[Step], storage: Storage, bundle: str) -> None:
    history = history_of(log, storage, bundle)
    won = [(at, r) for at, r, why in history if why is None]
    stands = won[-1][1] if won else None
    assert table.records.get(bundle) == stands
    assert table.since_ms(bundle) == (won[-1][0] if stands is not None else None)
    losers = losers_in(history)
    assert (bundle in table.tainted) == bool(losers)
    if bundle in table.tainted:
        at, loser, why = losers[-1]
        greatest = max(r.versionId for _, r, _ in losers)
        assert table.tainted[bundle] == Loser(loser, str(why), at, greatest)
    in_flight = {name: (r, age) for name, r, age in table.in_flight(1_000)}
    if stands is not None and stands.state.value in ("Assigning", "Releasing", "Splitting"):
        assert in_flight[bundle] == (stands, 1_000 - won[-1][0])
    else:
        assert bundle not in in_flight


@given(steps, st.sampled_from(["log", "metadata"]))
@settings(print_blob=True, deadline=None, max_examples=400)
def test_the_table_is_a_simple_fold(log: list[Step], storage: Storage) -> None:
    table = ChannelTable(storage)
    outcomes = [table.apply(name, new, at) for at, (name, new) in enumerate(log)]
    assert table.accepted == sum(one.is_accepted for one in outcomes)
    assert table.losing.total() == sum(one.losing is not None for one in outcomes)
    for bundle in (BUNDLE, OTHER):
        check_bundle(table, log, storage, bundle)


small = st.builds(
    record,
    st.sampled_from([state for state in S if state is not S.Init]),
    st.integers(1, 6),
    st.sampled_from(["b1", "b2"]),
    st.sampled_from([None, "b1", "b2"]),
    st.booleans(),
)


@given(st.lists(st.none() | small, min_size=1, max_size=14), st.integers(0, 14))
@settings(print_blob=True, deadline=None, max_examples=1_500)
def test_a_log_that_is_not_tainted_can_be_compacted_anywhere(
    log: list[ServiceUnitStateData | None], cleaned: int
) -> None:
    """Kafka's compaction: of the cleaned part the last record of a key stays, winner or not."""
    whole, late = ChannelTable(), ChannelTable()
    for at, new in enumerate(log):
        whole.apply(BUNDLE, new, at)
    for at, new in enumerate(log[:cleaned][-1:] + log[cleaned:]):
        late.apply(BUNDLE, new, at)
    if BUNDLE not in whole.tainted:
        assert late.records == whole.records


@given(steps)
@settings(print_blob=True, deadline=None, max_examples=200)
def test_a_compacted_log_gives_the_same_table(log: list[Step]) -> None:
    """Compaction keeps the record that stands for each bundle; a reader of it sees the same."""
    table, late = ChannelTable(), ChannelTable()
    for at, (name, new) in enumerate(log):
        if new is None or new.state is not S.Init:  # Init never stands on the wire
            table.apply(name, new, at)
    for name, stands in table.records.items():
        assert late.apply(name, stands, table.since_ms(name) or 0).is_accepted
    assert late.records == table.records
    assert late.owners() == table.owners()
    assert late.in_flight(99) == table.in_flight(99)
    assert not late.tainted
