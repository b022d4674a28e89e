"""The registry, and the example strategy that new ones are copied from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.settings import Settings
from controller.strategies.params import BiggestFirstParams
from controller.strategies.registry import (
    PLACE,
    SHED,
    SPLIT,
    UnknownStrategyError,
    place_strategy,
    shed_strategy,
    split_strategy,
)
from controller.strategies.shed.avg import AvgShed
from controller.strategies.shed.example import BiggestFirstShed
from tests.views import B, make_view


def test_every_registered_strategy_can_be_built_from_the_settings() -> None:
    for name in SHED:
        assert shed_strategy(replace(Settings(), shed=name)).shed
    for name in PLACE:
        assert place_strategy(replace(Settings(), place=name)).begin
    for name in SPLIT:
        assert split_strategy(replace(Settings(), split=name)).split
    assert isinstance(shed_strategy(Settings()), AvgShed)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStrategyError, match=r"'best'.*avg"):
        shed_strategy(replace(Settings(), shed="best"))


def test_the_example_moves_the_biggest_bundle_that_closes_the_gap() -> None:
    bundles = [B("a", load=45.0), B("a", load=25.0), B("a", load=10.0), B("a", load=0.0)]
    view = make_view({"a": 80.0, "b": 40.0}, bundles)
    plan = BiggestFirstShed(BiggestFirstParams()).shed(view, {})

    assert [(t.bundle, t.source, t.destination) for t in plan.transfers] == [(1, 0, 1)]


@pytest.mark.parametrize(
    ("points", "bundles", "reason"),
    [
        ({"a": 50.0, "b": 40.0}, [B("a", load=5.0)], "balanced"),
        ({"a": 80.0, "b": 40.0}, [B("a", load=80.0)], "no_bundles"),
        ({"a": 80.0}, [B("a", load=80.0)], "no_brokers"),
    ],
)
def test_the_example_says_why_not(points: dict[str, float], bundles: list[B], reason: str) -> None:
    plan = BiggestFirstShed(BiggestFirstParams()).shed(make_view(points, bundles), {})

    assert plan.transfers == ()
    assert plan.verdicts[0].reason.label == reason
