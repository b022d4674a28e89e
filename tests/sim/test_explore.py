"""Every state of a small cluster, within the quick bounds; `make explore` has the full ones."""

from __future__ import annotations

import pytest

from controller.sim.explore.bounds import QUICK, Bounds
from controller.sim.explore.search import Search


@pytest.mark.slow
@pytest.mark.parametrize("bounds", QUICK, ids=lambda bounds: bounds.name)
def test_no_reachable_state_violates_an_invariant(bounds: Bounds) -> None:
    facts = Search(bounds).run()
    print(f"{bounds.text()}: {facts.states} states, {facts.transitions} transitions")
    assert facts.violation is None
    assert facts.is_complete
    assert facts.settled == facts.states > 10_000


def test_a_batch_that_runs_again_is_decided_again() -> None:
    facts = Search(Bounds("transfer", 1, 0, 0), is_checking_purity=True).run()
    assert facts.violation is None and facts.is_complete
