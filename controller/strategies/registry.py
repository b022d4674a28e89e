"""The strategies that exist, by the name used in the configuration.

A new strategy is a copy of `controller/strategies/shed/example.py`, its parameters in
`params.py`, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from controller.strategies.place.avg import AvgPlace
from controller.strategies.place.least_resource import LeastResourcePlace
from controller.strategies.place.message_rate import MessageRatePlace
from controller.strategies.place.round_robin import RoundRobinPlace
from controller.strategies.place.usage import UsagePlace
from controller.strategies.protocols import PlaceStrategy, ShedStrategy, SplitStrategy
from controller.strategies.shed.avg import AvgShed
from controller.strategies.shed.example import BiggestFirstShed
from controller.strategies.shed.overload import OverloadShed
from controller.strategies.shed.threshold import ThresholdShed
from controller.strategies.shed.transfer import TransferShed
from controller.strategies.shed.uniform import UniformShed
from controller.strategies.split.thresholds import ThresholdSplit

T = TypeVar("T")

SHED: Mapping[str, Callable[[Any], ShedStrategy]] = {
    "avg": lambda s: AvgShed(s.avg, s.parity),
    "biggest_first": lambda s: BiggestFirstShed(s.biggest_first),
    "overload": lambda s: OverloadShed(s.overload, s.parity),
    "threshold": lambda s: ThresholdShed(s.threshold, s.parity),
    "transfer": lambda s: TransferShed(s.transfer, s.parity),
    "uniform": lambda s: UniformShed(s.uniform, s.parity),
}
PLACE: Mapping[str, Callable[[Any], PlaceStrategy]] = {
    "avg": lambda s: AvgPlace(s.parity),
    "least_long_term_rate": lambda s: MessageRatePlace(s.message_rate),
    "least_resource": lambda s: LeastResourcePlace(s.least_resource),
    "least_usage_extensible": lambda s: UsagePlace(s.usage, False, s.parity),
    "least_usage_modular": lambda s: UsagePlace(s.usage, True, s.parity),
    "round_robin": lambda s: RoundRobinPlace(),
}
SPLIT: Mapping[str, Callable[[Any], SplitStrategy]] = {
    "long_term": lambda s: ThresholdSplit(s.thresholds, is_long_term=True, parity=s.parity),
    "thresholds": lambda s: ThresholdSplit(s.thresholds, is_long_term=False, parity=s.parity),
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
