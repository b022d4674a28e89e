"""The strategies that exist, by the name used in the configuration.

A new strategy is a copy of `controller/strategies/example.py`, its parameters in `params.py`,
and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from controller.strategies.avg import AvgShed
from controller.strategies.example import BiggestFirstShed
from controller.strategies.least_resource import LeastResourcePlace
from controller.strategies.protocols import PlaceStrategy, ShedStrategy, SplitStrategy
from controller.strategies.thresholds import ThresholdSplit

T = TypeVar("T")

SHED: Mapping[str, Callable[[Any], ShedStrategy]] = {
    "avg": lambda settings: AvgShed(settings.avg),
    "biggest_first": lambda settings: BiggestFirstShed(settings.biggest_first),
}
PLACE: Mapping[str, Callable[[Any], PlaceStrategy]] = {
    "least_resource": lambda settings: LeastResourcePlace(settings.least_resource),
}
SPLIT: Mapping[str, Callable[[Any], SplitStrategy]] = {
    "thresholds": lambda settings: ThresholdSplit(settings.thresholds),
}


class UnknownStrategyError(ValueError):
    """The configuration names a strategy that is not registered."""

    def __init__(self, kind: str, name: str, known: Mapping[str, object]) -> None:
        super().__init__(f"{kind} strategy {name!r} is unknown; known are {', '.join(known)}")


def shed_strategy(settings: Any) -> ShedStrategy:
    """The shed strategy that `settings.shed` names; raises `UnknownStrategyError`."""
    return _find("shed", settings.shed, SHED)(settings)


def place_strategy(settings: Any) -> PlaceStrategy:
    """The place strategy that `settings.place` names; raises `UnknownStrategyError`."""
    return _find("place", settings.place, PLACE)(settings)


def split_strategy(settings: Any) -> SplitStrategy:
    """The split strategy that `settings.split` names; raises `UnknownStrategyError`."""
    return _find("split", settings.split, SPLIT)(settings)


def _find(kind: str, name: str, known: Mapping[str, Callable[[Any], T]]) -> Callable[[Any], T]:
    if name not in known:
        raise UnknownStrategyError(kind, name, known)
    return known[name]
