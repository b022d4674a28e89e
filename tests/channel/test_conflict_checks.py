"""The conflict rule step by step; each test quotes the rule of pulsar.md 6.4 that it checks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from controller.channel.conflict import (
    BROKER_CHECKS,
    Condition,
    broken_check,
    keep_old,
    next_version,
)
from controller.channel.states import ACTIVE, IN_FLIGHT, SERVED_BY, TRANSITIONS, Storage
from controller.wire.channel import LONG_MAX, LONG_MIN, ServiceUnitStateData
from tests.channel.records import S, record

STORAGES: tuple[Storage, ...] = ("log", "metadata")
BLANKS = (None, "", " ", "\t\n")
Brokers = tuple[str | None, str | None]  # dst, src

# Transition, old (dst, src), a new (dst, src) that passes.
GOOD: list[tuple[S, S, Brokers, Brokers]] = [
    (S.Owned, S.Splitting, ("b1", "b0"), (None, "b1")),
    (S.Owned, S.Releasing, ("b1", "b0"), ("b2", "b1")),
    (S.Owned, S.Releasing, ("b1", "b0"), (None, "b1")),
    (S.Assigning, S.Owned, ("b1", "b0"), ("b1", "b0")),
    (S.Assigning, S.Owned, ("b1", None), ("b1", None)),
    (S.Releasing, S.Assigning, ("b2", "b1"), ("b2", "b1")),
    (S.Releasing, S.Free, (None, "b1"), (None, "b1")),
    (S.Splitting, S.Deleted, (None, "b1"), (None, "b1")),
    (S.Splitting, S.Deleted, ("b9", "b1"), ("b9", "b1")),  # a split that was redone
    (S.Free, S.Assigning, (None, "b1"), ("b2", None)),
]
# Transition, old, new, the condition that rejects; one row for each way a check can break.
BAD: list[tuple[S, S, Brokers, Brokers, Condition]] = [
    (S.Owned, S.Splitting, ("b1", None), ("b2", "b1"), "new.dst not blank"),
    (S.Owned, S.Splitting, ("b1", None), (None, "b2"), "old.dst ≠ new.src"),
    (S.Owned, S.Splitting, (None, "b1"), (None, "b1"), "old.dst ≠ new.src"),
    (S.Owned, S.Releasing, ("b1", None), ("b2", None), "new.src blank"),
    (S.Owned, S.Releasing, ("b1", None), ("b2", " "), "new.src blank"),
    (S.Owned, S.Releasing, ("b1", None), ("b2", "b3"), "old.dst ≠ new.src"),
    (S.Owned, S.Releasing, (None, "b1"), ("b2", "b1"), "old.dst ≠ new.src"),
    (S.Owned, S.Releasing, ("b1", None), ("b1", "b1"), "old.dst = new.dst"),
    (S.Assigning, S.Owned, ("b1", "b0"), ("b2", "b0"), "dst differs"),
    (S.Assigning, S.Owned, ("b1", "b0"), ("b1", None), "src differs"),
    (S.Assigning, S.Owned, ("b1", None), ("b1", ""), "src differs"),  # null is not ""
    (S.Releasing, S.Assigning, (None, "b1"), (None, "b1"), "new.dst blank"),
    (S.Releasing, S.Assigning, ("b2", "b1"), ("b3", "b1"), "dst differs"),
    (S.Releasing, S.Assigning, ("b2", "b1"), ("b2", "b3"), "src differs"),
    (S.Releasing, S.Free, (None, "b1"), ("b2", "b1"), "dst differs"),
    (S.Releasing, S.Free, (None, "b1"), (None, "b2"), "src differs"),
    (S.Splitting, S.Deleted, (None, "b1"), ("b1", "b1"), "dst differs"),
    (S.Splitting, S.Deleted, (None, "b1"), (None, "b2"), "src differs"),
    (S.Free, S.Assigning, (None, "b1"), ("b2", "b1"), "new.src not blank"),
    (S.Free, S.Assigning, (None, "b1"), (None, None), "new.dst blank"),
    (S.Free, S.Assigning, (None, "b1"), (" ", None), "new.dst blank"),
]


def ids(row: tuple[Any, ...]) -> str:
    return "-".join(str(part) for part in row)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("row", GOOD, ids=ids)
def test_broker_checks_let_pass(row: tuple[S, S, Brokers, Brokers], storage: Storage) -> None:
    """6. broker checks: none of the row's conditions holds, so the record is accepted."""
    before, after, old, new = row
    first, second = record(before, 7, *old), record(after, 8, *new)
    assert keep_old(first, second, storage) is None
    assert broken_check(first, second) is None


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("row", BAD, ids=ids)
def test_broker_checks_reject(
    row: tuple[S, S, Brokers, Brokers, Condition], storage: Storage
) -> None:
    """6. broker checks | Old->new | Reject when: and only force gets past them."""
    before, after, old, new, condition = row
    first = record(before, 7, *old)
    assert keep_old(first, record(after, 8, *new), storage) == "broker_mismatch"
    assert broken_check(first, record(after, 8, *new)) == condition
    assert keep_old(first, record(after, 8, *new, force=True), storage) is None


def test_every_condition_of_every_row_is_checked_above() -> None:
    """The seven rows of the table, and not one more."""
    assert {(a, b): set(row) for (a, b), row in BROKER_CHECKS.items()} == {
        (a, b): {row[4] for row in BAD if row[:2] == (a, b)} for a, b, *_ in BAD
    }
    assert {row[:2] for row in GOOD} == set(BROKER_CHECKS)
    assert len(BROKER_CHECKS) == 7


@pytest.mark.parametrize("blank", BLANKS)
def test_blank_is_what_java_calls_blank(blank: str | None) -> None:
    """new.dst blank / not blank: null, empty or only white space."""
    free = record(S.Free, 1, None, "b1")
    assert keep_old(free, record(S.Assigning, 2, "b2", blank)) is None
    assert keep_old(free, record(S.Assigning, 2, blank, None)) == "broker_mismatch"


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_what_the_tables_do_not_allow_is_rejected(before: S, after: S, storage: Storage) -> None:
    """5. transition not allowed -> reject."""
    reason = keep_old(record(before, 1, "b1", "b1"), record(after, 2, "b1", "b1"), storage)
    assert (reason == "bad_transition") == (after not in TRANSITIONS[storage][before])


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_force_skips_transition_and_broker_checks(before: S, after: S) -> None:
    """4. force -> accept."""
    old, new = record(before, 1, "b1", "b1"), record(after, 2, "b3", "b4", force=True)
    assert keep_old(old, new, "log") is None
    assert keep_old(old, new, "metadata") is None


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("state", [None, *S])
def test_a_tombstone_is_always_accepted(state: S | None, storage: Storage) -> None:
    """1. new is a tombstone -> accept."""
    old = None if state is None else record(state, LONG_MAX, "b1", "b2", force=True)
    assert keep_old(old, None, storage) is None


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(("old", "new"), [(5, 5), (5, 4), (5, 1), (LONG_MAX, 1), (0, LONG_MIN)])
def test_old_versions_are_rejected(old: int, new: int, force: bool, storage: Storage) -> None:
    """2. old.v >= new.v -> reject; before force is looked at."""
    first = record(S.Assigning, old, "b1")
    assert keep_old(first, record(S.Owned, new, "b1", force=force), storage) == "stale_version"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(("old", "new"), [(5, 7), (1, LONG_MAX), (LONG_MIN, 1), (-1, 1)])
def test_a_gap_wins_on_the_log_and_loses_in_the_store(old: int, new: int, force: bool) -> None:
    """gap >= 2 -> accept at once on SystemTopic (no other check), reject on MetadataStore."""
    first = record(S.Owned, old, "b1")
    for state in S:
        second = record(state, new, "b7", "b8", force=force)
        assert keep_old(first, second, "log") is None
        assert keep_old(first, second, "metadata") == "gap"


@pytest.mark.parametrize("storage", STORAGES)
def test_overflow_goes_on_to_the_other_checks(storage: Storage) -> None:
    """2. version MAX -> MIN (overflow) -> go on."""
    last = record(S.Assigning, LONG_MAX, "b1")
    assert next_version(last) == LONG_MIN
    assert keep_old(last, record(S.Owned, LONG_MIN, "b1"), storage) is None
    assert keep_old(last, record(S.Owned, LONG_MIN, "b2"), storage) == "broker_mismatch"
    assert keep_old(last, record(S.Free, LONG_MIN, "b1"), storage) == "bad_transition"
    assert keep_old(last, record(S.Free, LONG_MIN, "b1", force=True), storage) is None
    assert keep_old(last, record(S.Owned, LONG_MIN + 1, "b1"), storage) == "stale_version"
    almost = record(S.Assigning, LONG_MAX - 1, "b1")
    assert keep_old(almost, record(S.Owned, LONG_MIN, "b1"), storage) == "stale_version"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", list(S))
def test_the_first_record_in_the_store_has_version_one(state: S, force: bool) -> None:
    """3. old absent, MetadataStore -> accept iff new.v = 1, no other check."""
    for version, reason in [(1, None), (2, "not_first_version"), (0, "not_first_version")]:
        assert keep_old(None, record(state, version, "b1", force=force), "metadata") == reason


@pytest.mark.parametrize("version", [1, 2, 77, LONG_MAX, LONG_MIN])
def test_the_first_record_on_the_log_may_have_any_version(version: int) -> None:
    """SystemTopic -> go on; the Init row allows all states, for a compacted middle."""
    for state in set(S) - {S.Init}:
        assert keep_old(None, record(state, version, "b1", "b2"), "log") is None
    assert keep_old(None, record(S.Init, version, "b1"), "log") == "bad_transition"


def test_a_stale_view_with_a_larger_gap_wins_without_checks() -> None:
    """On the topic, a writer with a stale view but larger gap wins without checks."""
    old = record(S.Owned, 5, "b1")
    assert keep_old(old, record(S.Free, 6, None, "b7")) == "bad_transition"
    assert keep_old(old, record(S.Free, 7, None, "b7")) is None


def test_state_classes() -> None:
    """Active = Owned or in-flight."""
    assert {S.Assigning, S.Releasing, S.Splitting} == IN_FLIGHT
    assert IN_FLIGHT | {S.Owned} == ACTIVE
    assert set(SERVED_BY) < ACTIVE


def test_next_version_is_the_only_one_that_is_checked_and_can_win() -> None:
    """External writer: read current version v, write v+1."""
    old: ServiceUnitStateData | None = None
    for state, dst in [(S.Assigning, "b1"), (S.Owned, "b1")]:
        new = record(state, next_version(old), dst)
        assert keep_old(old, new, "log") is None
        assert keep_old(old, new, "metadata") is None
        old = new
