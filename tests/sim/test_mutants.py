"""Rules of the production code, broken one at a time: the exploration must find each.

A mutant is a rule taken out or bent in the running process; nothing is replaced by a stand-in. The
scope of each is the smallest in which it can show. The number of states tells how far the search
had to go, and is bounded so that a search that goes astray fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from controller.agent import obey, state, turn
from controller.agent.state import Phase
from controller.channel.conflict import keep_old
from controller.core.fold import channel
from controller.core.rounds import decide
from controller.sim.explore import agent, leader
from controller.sim.explore.bounds import DELAY, DUPLICATE, Bounds
from controller.sim.explore.search import Search
from controller.sim.explore.times import AGENT_NOW_MS, UNIT_MS
from controller.wire.channel import ServiceUnitState

Patch = pytest.MonkeyPatch


def accept_equal_versions(patch: Patch) -> None:
    """The conflict rule: the last writer of a version wins, not the first."""

    def bent(old, new, storage="log"):
        if old is not None and new is not None and old.versionId == new.versionId:
            return None
        return keep_old(old, new, storage)

    patch.setattr(turn, "keep_old", bent)
    patch.setattr(channel, "keep_old", bent)


def serve_when_assigned(patch: Patch) -> None:
    """Served on Assigning, without reading the own Owned record back."""
    owns = turn.Turn.owns

    def bent(self, record):
        is_assigned = record.state == ServiceUnitState.Assigning
        return owns(self, record) or (is_assigned and record.dstBroker == self.broker)

    patch.setattr(turn.Turn, "owns", bent)


def assign_before_closed(patch: Patch) -> None:
    """The source of a transfer writes Assigning while it still closes."""
    before = obey._obey

    def bent(self, bundle, record):
        before(self, bundle, record)
        if self.phases.get(bundle) == Phase.CLOSING and record is not None:
            obey._answer(self, bundle, record)

    patch.setattr(obey, "_obey", bent)


def no_grace(patch: Patch) -> None:
    """A forced record is obeyed at once, whoever may still serve."""
    patch.setattr(turn.Turn, "_note_takeover", lambda *_: None)


def lease_by_reads_alone(patch: Patch) -> None:
    """The lease ignores whether signs of life get through."""

    def bent(read_ms, heard_ms, in_flight_ms, settings):
        return None if read_ms is None else read_ms + settings.lease_ms

    patch.setattr(state, "deadline_of", bent)
    patch.setattr(turn, "deadline_of", bent)


def no_lease(patch: Patch) -> None:
    """A broker serves whatever it last heard, for ever."""
    patch.setattr(state, "may_serve", lambda *_: True)
    patch.setattr(turn.Turn, "fence", lambda _: None)


def heard_counts_at_once(patch: Patch) -> None:
    """A sign of life after a silence is trusted, although a forced record may be on its way."""
    patch.setattr(agent, "AGENT", replace(agent.AGENT, heard_settle_ms=0))


def lease_outlasts_take_over(patch: Patch) -> None:
    """A broker serves on for longer than the controller waits."""
    lease_ms = 6 * UNIT_MS
    patch.setattr(agent, "AGENT", replace(agent.AGENT, lease_ms=lease_ms))
    patch.setattr(agent, "_OLDEST_MS", AGENT_NOW_MS - lease_ms - UNIT_MS)


def split_without_children(patch: Patch) -> None:
    """The parent is deleted before the channel knows its children."""
    patch.setattr(obey, "_is_known", lambda *_: True)


def skip_a_version(patch: Patch) -> None:
    """The controller writes version + 2, which wins without any check."""
    patch.setattr(decide, "next_version", lambda old: 1 if old is None else old.versionId + 2)


def bury_at_once(patch: Patch) -> None:
    """A tombstone does not wait until late duplicates have come."""
    actions = replace(leader.CORE.actions, tombstone_delay_ms=UNIT_MS)
    patch.setattr(leader, "CORE", replace(leader.CORE, actions=actions))


def short_grace(patch: Patch) -> None:
    """The grace does not outlast the last read of an unheard owner."""
    patch.setattr(agent, "AGENT", replace(agent.AGENT, takeover_grace_ms=UNIT_MS))


def no_drop(patch: Patch) -> None:
    """What a forced record takes away is served on."""
    patch.setattr(turn.Turn, "drop", lambda *_: None)


def close_outlives_force(patch: Patch) -> None:
    """A close that runs is waited for, although the bundle was given away by force."""
    patch.setattr(turn.Turn, "_take_away", lambda *_: None)


@dataclass(frozen=True)
class Mutant:
    break_rule: Callable[[Patch], None]
    bounds: Bounds
    says: str  # part of what the judge says
    states_max: int = 150_000


def _scope(transfers: int, splits: int, faults: int, *kinds: str) -> Bounds:
    return Bounds("mutant", transfers, splits, faults, frozenset(kinds))


SERVED_TWICE = "while"
MUTANTS = (
    Mutant(accept_equal_versions, _scope(0, 0, 2, DELAY), SERVED_TWICE),
    Mutant(serve_when_assigned, _scope(0, 0, 0), "Assigning"),
    Mutant(assign_before_closed, _scope(1, 0, 0), SERVED_TWICE),
    Mutant(no_grace, _scope(0, 0, 2, DELAY), SERVED_TWICE),
    Mutant(lease_by_reads_alone, _scope(0, 0, 2, DELAY), SERVED_TWICE),
    Mutant(no_lease, _scope(0, 0, 1, DELAY), SERVED_TWICE),
    Mutant(heard_counts_at_once, _scope(0, 0, 2, DELAY), SERVED_TWICE),
    Mutant(lease_outlasts_take_over, _scope(0, 0, 1, DELAY), SERVED_TWICE),
    Mutant(split_without_children, _scope(0, 1, 0), "nobody"),
    Mutant(skip_a_version, _scope(1, 0, 0), "version"),
    Mutant(bury_at_once, _scope(0, 1, 1, DUPLICATE), "version"),
    Mutant(short_grace, _scope(0, 0, 2, DELAY), SERVED_TWICE),
    Mutant(no_drop, _scope(0, 0, 1, DELAY), "serves"),
    Mutant(close_outlives_force, _scope(1, 0, 2, DELAY), "serves", 400_000),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.break_rule.__name__)
def test_a_broken_rule_is_found(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.break_rule(monkeypatch)
    facts = Search(mutant.bounds, states_max=mutant.states_max).run()
    print(f"{mutant.break_rule.__name__}: {facts.states:,} states, {facts.violation}")
    assert facts.violation is not None and mutant.says in facts.violation
