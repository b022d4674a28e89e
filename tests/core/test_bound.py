"""The bound against brute force: no k moves can reach less than it says."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.view.bound import load_bound
from tests.views import B, make_view


def best_with(loads: list[list[int]], moves: int) -> float:
    """Least greatest load over all ways to move at most `moves` bundles."""
    items = [(b, w) for b, ws in enumerate(loads) for w in ws]
    best = float("inf")
    for owners in itertools.product(range(len(loads)), repeat=len(items)):
        if sum(o != b for o, (b, _) in zip(owners, items, strict=True)) > moves:
            continue
        sums = [0.0] * len(loads)
        for owner, (_, w) in zip(owners, items, strict=True):
            sums[owner] += w
        best = min(best, max(sums))
    return best


@given(
    st.lists(st.lists(st.integers(1, 30), max_size=3), min_size=2, max_size=3),
    st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_no_plan_beats_the_bound(loads: list[list[int]], moves: int) -> None:
    names = [f"b{i}" for i in range(len(loads))]
    bundles = [B(n, load=float(w)) for n, ws in zip(names, loads, strict=True) for w in ws]
    view = make_view({n: float(sum(ws)) for n, ws in zip(names, loads, strict=True)}, bundles)
    bound = load_bound(view, np.ones(len(names), np.bool_), moves) * 100.0

    assert bound <= best_with(loads, moves) + 1e-6
    assert bound <= max(sum(ws) for ws in loads) + 1e-6


def test_enough_moves_reach_the_mean_of_small_bundles() -> None:
    bundles = [B("a", load=1.0) for _ in range(60)]
    view = make_view({"a": 60.0, "b": 0.0, "c": 0.0}, bundles)
    able = np.ones(3, np.bool_)

    assert round(load_bound(view, able, 40) * 100.0, 6) == 20.0
    assert round(load_bound(view, able, 10) * 100.0, 6) == 50.0
    assert round(load_bound(view, able, 0) * 100.0, 6) == 60.0
