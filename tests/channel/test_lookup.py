"""Lookup of the owner, row by row of pulsar.md 6.7; each test quotes the rule it checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.channel.lookup import (
    Answer,
    Deferred,
    Empty,
    Failed,
    Owner,
    is_owner,
    lookup,
    lookup_overdue,
)
from controller.wire.channel import ServiceUnitStateData
from tests.channel.records import S, brokers, record, records

OWNED = record(S.Owned, 2, "b1", "b9")
SPLITTING = record(S.Splitting, 3, None, "b1")
ASSIGNING = record(S.Assigning, 3, "b2", "b1")
RELEASING = record(S.Releasing, 3, "b2", "b1")
UNLOADING = record(S.Releasing, 3, None, "b1")


def everybody(broker: str) -> bool:
    return True


def all_but_b1(broker: str) -> bool:
    return broker != "b1"


@pytest.mark.parametrize("asker", [None, "b1", "b2", "b3"])
def test_owned_is_its_destination(asker: str | None) -> None:
    """Owned / Splitting | dst / src, after checking registration."""
    assert lookup(OWNED, asker, everybody) == Owner("b1")


@pytest.mark.parametrize("asker", [None, "b1", "b2", "b3"])
def test_splitting_is_its_source(asker: str | None) -> None:
    """Owned / Splitting | dst / src, after checking registration."""
    assert lookup(SPLITTING, asker, everybody) == Owner("b1")
    redone = record(S.Splitting, 4, "b7", "b1", force=True)
    assert lookup(redone, asker, everybody) == Owner("b1")


@pytest.mark.parametrize("asked", [OWNED, SPLITTING])
def test_inactive_owner_is_deferred(asked: ServiceUnitStateData) -> None:
    """inactive -> deferred until the leader repairs."""
    assert lookup(asked, "b3", all_but_b1) == Deferred("inactive", "b1")
    assert lookup(asked, None, all_but_b1) == Deferred("inactive", "b1")


@pytest.mark.parametrize("dst", [None, "", " "])
def test_owned_by_nobody_is_deferred(dst: str | None) -> None:
    """Owned with inactive/blank dst -> broker cleanup (6.8): the leader repairs it."""
    asked = record(S.Owned, 2, dst, "b1")
    assert lookup(asked, "b3", everybody) == Deferred("nobody", None)
    assert lookup(asked, "b3", None) == Deferred("nobody", None)


@pytest.mark.parametrize("asked", [ASSIGNING, RELEASING])
def test_the_destination_waits_for_owned(asked: ServiceUnitStateData) -> None:
    """Assigning / Releasing | self = dst -> deferred until Owned."""
    assert lookup(asked, "b2", everybody) == Deferred("arriving", "b2")
    assert lookup(asked, "b2", None) == Deferred("arriving", "b2")


@pytest.mark.parametrize("asked", [ASSIGNING, RELEASING])
@pytest.mark.parametrize("asker", [None, "b1", "b3"])
def test_others_get_the_destination_at_once(asked: ServiceUnitStateData, asker: str | None) -> None:
    """else dst at once: without a look at its registration."""
    assert lookup(asked, asker, lambda broker: broker == asker) == Owner("b2")


@pytest.mark.parametrize("asker", [None, "b1", "b3"])
def test_an_unload_has_no_destination(asker: str | None) -> None:
    """else dst at once (empty if none)."""
    assert lookup(UNLOADING, asker, everybody) == Empty()
    assert lookup(record(S.Releasing, 3, " ", "b1"), asker, everybody) == Empty()


@pytest.mark.parametrize("asked", [None, record(S.Free, 4, None, "b1"), record(S.Init, 1, "b1")])
def test_nobody_owns_what_is_free(asked: ServiceUnitStateData | None) -> None:
    """Init, Free | empty (caller assigns)."""
    assert lookup(asked, "b1", everybody) == Empty()
    assert lookup(asked, None, None) == Empty()


def test_deleted_is_an_error() -> None:
    """Deleted | error."""
    assert lookup(record(S.Deleted, 4, None, "b1"), "b1", everybody) == Failed("deleted")


@pytest.mark.parametrize("asked", [OWNED, SPLITTING])
def test_no_check_without_registration(asked: ServiceUnitStateData) -> None:
    """If this broker itself is unregistered, it returns the recorded owner with no check."""
    assert lookup(asked, "b3", lambda broker: False) == Owner("b1")
    assert lookup(asked, "b3", None) == Owner("b1")
    assert lookup(asked, None, lambda broker: False) == Deferred("inactive", "b1")


def test_after_the_wait_the_owner_or_an_error() -> None:
    """Deferred: time limit, then the current owner if determinable, else error."""
    assert lookup_overdue(OWNED, "b2", all_but_b1) == Failed("overdue")
    assert lookup_overdue(ASSIGNING, "b2", everybody) == Failed("overdue")
    assert lookup_overdue(OWNED, "b2", everybody) == Owner("b1")
    assert lookup_overdue(None, "b2", everybody) == Empty()


def test_is_owner_only_if_immediate_and_equal() -> None:
    """`isOwner` is true only if the answer is immediate and equal."""
    assert is_owner(OWNED, "b1", "b1", everybody)
    assert not is_owner(OWNED, "b2", "b1", everybody)
    assert not is_owner(OWNED, "b1", "b2", all_but_b1)
    assert not is_owner(ASSIGNING, "b2", "b2", everybody)
    assert is_owner(ASSIGNING, "b2", "b1", everybody)
    assert not is_owner(None, "b1", "b1", everybody)


def simply(asked: ServiceUnitStateData | None, asker: str | None, active: set[str]) -> Answer:
    """The table of 6.7 once more, row by row."""
    state = "Init" if asked is None else asked.state.value
    if asked is None or state in ("Init", "Free"):
        return Empty()
    if state == "Deleted":
        return Failed("deleted")
    named = asked.sourceBroker if state == "Splitting" else asked.dstBroker
    is_named = named is not None and named.strip() != ""
    if state in ("Assigning", "Releasing"):
        if not is_named:
            return Empty()
        return Deferred("arriving", named) if named == asker else Owner(named or "")
    if not is_named:
        return Deferred("nobody", None)
    is_unknown = asker is not None and asker not in active
    if is_unknown or named in active:
        return Owner(named or "")
    return Deferred("inactive", named)


@given(st.none() | records, brokers, st.sets(st.sampled_from(["b1", "b2"])))
def test_lookup_is_the_table(
    asked: ServiceUnitStateData | None, asker: str | None, active: set[str]
) -> None:
    assert lookup(asked, asker, active.__contains__) == simply(asked, asker, active)
