"""Builds the cluster view of a scenario's tick: what the strategies see, and nothing more.

Brokers and bundles are given row by row in plain numbers; what a class does not look at stays 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controller.decide.forms import Average, BundleData, Stats
from controller.decide.scenario import ScenarioError
from controller.model.bundles import BundleNameError, split_name
from controller.strategies.view import BrokerFilter, ClusterView, Ints
from controller.wire.topics import TopicLoads

NOW_MS = 10**12
"""Time of every tick; only ages count, and they are relative."""


@dataclass(slots=True)
class BrokerRow:
    """One broker."""

    load: float = 0.0
    load_ema: float = 0.0
    rate: float = 0.0
    throughput: float = 0.0
    throughput_ema: float = 0.0
    long_rate: float = 0.0
    bundles: int = 0
    capacity: float = 0.0
    reported_ms: int = NOW_MS
    unloaded_ms: int = 0
    is_registered: bool = True


@dataclass(slots=True)
class BundleRow:
    """One bundle as one broker reports it; `owner` None = nobody of the view."""

    name: str
    owner: str | None
    short: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    long: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    now: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    topics: int = 0
    sessions: int = 0
    is_movable: bool = True
    is_excluded: bool = False
    has_policy: bool = False
    is_splitting: bool = False
    is_reported: bool = True


@dataclass(slots=True)
class Picture:
    """A tick in rows."""

    brokers: dict[str, BrokerRow]
    bundles: list[BundleRow] = field(default_factory=list)
    namespace_bundles: Mapping[str, int] | None = None  # None = nobody asks
    topics: Mapping[int, TopicLoads] = field(default_factory=dict)
    tops: Mapping[str, Ints] | None = None  # rows by broker, smallest first
    filter: BrokerFilter | None = None

    def view(self) -> ClusterView:
        """The view; raises `ScenarioError` for a name that is no bundle's."""
        names = tuple(sorted(self.brokers))
        index = {name: at for at, name in enumerate(names)}
        parts = [_parts(row.name) for row in self.bundles]
        namespaces = tuple(dict.fromkeys(part[0] for part in parts)) or ("",)
        places = {name: at for at, name in enumerate(namespaces)}
        ranks = {name: at for at, name in enumerate(sorted(namespaces))}
        counts = self.namespace_bundles
        bundles = self._bundle_arrays(index)
        tops = None if self.tops is None else {index[b]: top for b, top in self.tops.items()}
        return ClusterView(
            now_ms=NOW_MS,
            broker_names=names,
            **self._broker_arrays([self.brokers[name] for name in names]),
            **bundles,
            bundle_namespace=_ints([places[part[0]] for part in parts]),
            bundle_lower=_ints([part[1] for part in parts]),
            bundle_upper=_ints([part[2] for part in parts]),
            namespaces=namespaces,
            namespace_bundles=_ints(
                [-1 if counts is None else counts.get(n, -1) for n in namespaces]
            ),
            namespace_rank=_ints([ranks[name] for name in namespaces]),
            topics=self.topics,
            tops=tops,
            filter=self.filter,
        )

    def _broker_arrays(self, rows: Sequence[BrokerRow]) -> dict[str, Any]:
        has_load = np.array([row.reported_ms > 0 for row in rows], np.bool_)
        registered = np.array([row.is_registered for row in rows], np.bool_)
        return {
            "broker_load": _floats([row.load for row in rows]),
            "broker_load_ema": _floats([row.load_ema for row in rows]),
            "broker_rate": _floats([row.rate for row in rows]),
            "broker_throughput": _floats([row.throughput for row in rows]),
            "broker_throughput_ema": _floats([row.throughput_ema for row in rows]),
            "broker_long_rate": _floats([row.long_rate for row in rows]),
            "broker_topics": np.zeros(len(rows), np.int64),
            "broker_bundles": _ints([row.bundles for row in rows]),
            "broker_capacity": _floats([row.capacity for row in rows]),
            "broker_reported_ms": _ints([row.reported_ms for row in rows]),
            "broker_unloaded_ms": _ints([row.unloaded_ms for row in rows]),
            "broker_is_registered": registered,
            "broker_is_live": registered,
            "broker_can_shed": registered & has_load,
        }

    def _bundle_arrays(self, index: Mapping[str, int]) -> dict[str, Any]:
        rows = self.bundles
        owner = _ints([index.get(row.owner or "", -1) for row in rows])
        movable = np.array([row.is_movable for row in rows], np.bool_)
        excluded = np.array([row.is_excluded for row in rows], np.bool_)
        short = np.array([row.short for row in rows], np.float64).reshape(-1, 4)
        zeros = np.zeros(len(rows), np.int64)
        return {
            "bundle_names": [row.name for row in rows],
            "bundle_owner": owner,
            "bundle_is_movable": movable & ~excluded & (owner >= 0),
            "bundle_is_settled": np.ones(len(rows), np.bool_),
            "bundle_is_reported": np.array([row.is_reported for row in rows], np.bool_),
            "bundle_is_splitting": np.array([row.is_splitting for row in rows], np.bool_),
            "bundle_is_excluded": excluded,
            "bundle_is_pinned": np.zeros(len(rows), np.bool_),
            "bundle_has_policy": np.array([row.has_policy for row in rows], np.bool_),
            "bundle_left": zeros - 1,
            "bundle_short": short,
            "bundle_long": np.array([row.long for row in rows], np.float64).reshape(-1, 4),
            "bundle_now": np.array([row.now for row in rows], np.float64).reshape(-1, 4),
            "bundle_rate": short[:, 0] + short[:, 1],
            "bundle_throughput": short[:, 2] + short[:, 3],
            "bundle_load": np.zeros(len(rows)),
            "bundle_topics": _ints([row.topics for row in rows]),
            "bundle_sessions": _ints([row.sessions for row in rows]),
            "bundle_topic_boundary": zeros,
        }


def figures(average: Average | Stats) -> tuple[float, float, float, float]:
    """Rate in, rate out, throughput in, throughput out."""
    return (
        average.msgRateIn,
        average.msgRateOut,
        average.msgThroughputIn,
        average.msgThroughputOut,
    )


def averaged(name: str, owner: str | None, data: BundleData) -> BundleRow:
    """The row of a bundle of which averages are known."""
    return BundleRow(name, owner, figures(data.shortTerm), figures(data.long), topics=data.topics)


def _parts(name: str) -> tuple[str, int, int]:
    try:
        return split_name(name)
    except BundleNameError as error:
        raise ScenarioError(str(error), "bundle") from None


def _ints(values: list[int]) -> Ints:
    return np.array(values, np.int64)


def _floats(values: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, np.float64)
