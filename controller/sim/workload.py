"""Load of the simulated cluster: a pure function of (spec, milliseconds since the start).

Rules:

1. Topics have names and CRC-32 hashes like real ones; the load of a bundle is the sum over its
   topics, so that the children of a split share out exactly what their parent had.
2. Bundles are skewed: the initial bundles are ranked by a seeded shuffle and weigh
   `(rank + zipf_shift) ** -zipf_exponent`; topics share the weight of their bundle unevenly.
3. A hot spot moves over the ring of all hash ranges and turns `hot_share` of the whole load.
4. One bundle grows: topics are born in it from the start on, one after the other, so that it
   passes `growing_topics` topics at `growing_at_share` of the run and then grows to twice that.

Every broker process builds the same `Workload` from the same `WorkloadSpec`; called by the
simulated broker, by the demo and by tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.model.bundles import (
    bundle_index,
    bundles_of,
    equal_boundaries,
    split_name,
    topic_hash,
)

Floats = NDArray[np.float64]
Hashes = NDArray[np.int64]

HASH_SPACE = 2.0**32


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Size and shape of the load; rates in msg/s (in + out), sizes in bytes, times in ms."""

    seed: int = 10
    namespaces: tuple[str, ...] = ("demo/orders", "demo/clicks")
    bundles_per_namespace: int = 64
    topics_per_namespace: int = 1_024  # 16 per bundle: enough that a bundle is no lump
    rate_total: float = 190_000.0  # of the base load; six brokers of 60,000 stand at ~55 %
    message_bytes: float = 1_000.0
    fan_out: float = 1.0  # consumers' rate over producers' rate
    zipf_exponent: float = 1.0
    zipf_shift: float = 9.0  # flattens the head: no bundle is above a tenth of a broker
    noise_ratio: float = 0.08  # each topic swings by so much around its mean
    noise_period_ms: int = 45_000
    hot_share: float = 0.10  # share of the load that the hot spot draws to itself
    hot_width_share: float = 0.05  # of the ring, one standard deviation
    hot_turn_share: float = 0.6  # of the ring, passed in one run
    run_ms: int = 120_000
    growing_topics: int = 80  # the split threshold of the configuration that goes with it
    growing_at_share: float = 1 / 3
    growing_rate: float = 6_000.0  # msg/s that the growing bundle has gained when it is done


@dataclass(frozen=True, slots=True)
class BundleLoad:
    """Load of n bundles: msg/s and byte/s as float64 [n], topic counts as int64 [n]."""

    rate_in: Floats
    rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats
    topics: Hashes


@dataclass(frozen=True, slots=True)
class _Topics:
    """Topics of one namespace, sorted by hash (ties by name): columns of equal length."""

    hashes: Hashes
    base: Floats  # msg/s of the base load
    hot: Floats  # msg/s while the whole hot spot stands on the topic alone
    ring: Floats  # place on the ring of all namespaces, 0..1
    phase: Floats  # of the noise, radians
    born_ms: Floats  # -inf for topics that are there from the start


class Workload:
    """See the module text; building one takes some 20 ms, asking it some 0.1 ms."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self.spec = spec
        self.growing_bundle = ""
        self._boundaries = equal_boundaries(spec.bundles_per_namespace)
        count = len(spec.namespaces) * spec.bundles_per_namespace
        self._rng = np.random.default_rng(spec.seed)
        ranks = self._rng.permutation(count)
        weights = (ranks + 1.0 + spec.zipf_shift) ** -spec.zipf_exponent
        self._bundle_rate = weights / weights.sum() * spec.rate_total * (1.0 - spec.hot_share)
        # A middling bundle grows: it is no candidate for a split by its rate at the start.
        self._growing = int(np.flatnonzero(ranks == count // 2)[0])
        self._topics = {
            namespace: self._build(index, namespace)
            for index, namespace in enumerate(spec.namespaces)
        }

    def bundle_names(self) -> list[str]:
        """Names of the initial bundles, namespace by namespace in order of their ranges."""
        return [
            str(bundle)
            for namespace in self.spec.namespaces
            for bundle in bundles_of(namespace, self._boundaries)
        ]

    def rates(self, bundles: list[str], t_ms: float) -> BundleLoad:
        """Load of the named bundles (initial ones or parts of them) at `t_ms` after the start.

        Raises BundleNameError for a name that is none; bundles of unknown namespaces are idle.
        """
        rate = np.zeros(len(bundles), np.float64)
        topics = np.zeros(len(bundles), np.int64)
        parts = [split_name(name) for name in bundles]
        for namespace in sorted({part[0] for part in parts} & self._topics.keys()):
            at = np.array([i for i, part in enumerate(parts) if part[0] == namespace])
            sums, alive = self._sums(namespace, t_ms)
            first, last = self._slices(namespace, [parts[i][1:] for i in at.tolist()])
            rate[at] = np.maximum(sums[last] - sums[first], 0.0)
            topics[at] = alive[last] - alive[first]
        rate_in = rate / (1.0 + self.spec.fan_out)
        rate_out = rate - rate_in
        size = self.spec.message_bytes
        return BundleLoad(rate_in, rate_out, rate_in * size, rate_out * size, topics)

    def topic_rates(self, bundle: str, t_ms: float) -> tuple[Hashes, Floats]:
        """CRC-32 hashes, ascending, and msg/s of the topics that the bundle has at `t_ms`."""
        namespace, lower, upper = split_name(bundle)
        topics = self._topics.get(namespace)
        if topics is None:
            return np.zeros(0, np.int64), np.zeros(0)
        first, last = self._slices(namespace, [(lower, upper)])
        here = slice(int(first[0]), int(last[0]))
        alive = topics.born_ms[here] <= t_ms
        return topics.hashes[here][alive], self._rates(topics, t_ms)[here][alive]

    def _slices(
        self, namespace: str, ranges: list[tuple[int, ...]]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        hashes = self._topics[namespace].hashes
        bounds = np.array(ranges, np.int64)
        first = np.searchsorted(hashes, bounds[:, 0], side="left")
        # The greatest hash belongs to the last bundle although its upper bound is exclusive.
        upper = np.where(bounds[:, 1] == 0xFFFFFFFF, 1 << 32, bounds[:, 1])
        return first, np.searchsorted(hashes, upper, side="left")

    def _sums(self, namespace: str, t_ms: float) -> tuple[Floats, Hashes]:
        """Prefix sums over the topics at `t_ms`: rate and number of living topics, [n + 1]."""
        topics, zero = self._topics[namespace], np.zeros(1)
        return (
            np.concatenate((zero, np.cumsum(self._rates(topics, t_ms)))),
            np.concatenate((zero, np.cumsum(topics.born_ms <= t_ms))).astype(np.int64),
        )

    def _rates(self, topics: _Topics, t_ms: float) -> Floats:
        """Rate of each topic at `t_ms`, 0 of those that are not born yet."""
        spec = self.spec
        swing = np.sin(2.0 * math.pi * t_ms / spec.noise_period_ms + topics.phase)
        center = (0.1 + spec.hot_turn_share * t_ms / spec.run_ms) % 1.0
        apart = np.abs(topics.ring - center)
        apart = np.minimum(apart, 1.0 - apart) / spec.hot_width_share
        rate = topics.base * (1.0 + spec.noise_ratio * swing)
        rate += topics.hot * np.exp(-0.5 * apart * apart)
        return np.where(topics.born_ms <= t_ms, rate, 0.0)

    def _build(self, index: int, namespace: str) -> _Topics:
        spec = self.spec
        names = [
            f"persistent://{namespace}/topic-{i:05d}" for i in range(spec.topics_per_namespace)
        ]
        hashes = [topic_hash(name) for name in names]
        inside = np.array([bundle_index(self._boundaries, h) for h in hashes])
        share = self._rng.pareto(2.5, len(names)) + 0.5
        totals = np.bincount(inside, share, minlength=spec.bundles_per_namespace)
        offset = index * spec.bundles_per_namespace
        base = share / totals[inside] * self._bundle_rate[offset + inside]
        born = np.full(len(names), -math.inf)
        if 0 <= self._growing - offset < spec.bundles_per_namespace:
            at = self._growing - offset
            there = int(np.count_nonzero(inside == at))
            more_hashes, more_rates, more_born = self._newborn(namespace, at, there)
            hashes += more_hashes
            base = np.concatenate((base, more_rates))
            born = np.concatenate((born, more_born))
        order = np.argsort(np.array(hashes), kind="stable")
        phase = self._rng.uniform(0.0, 2.0 * math.pi, len(hashes))
        sorted_hashes = np.array(hashes, np.int64)[order]
        ring = (index + sorted_hashes / HASH_SPACE) / len(spec.namespaces)
        # A Gaussian of this width covers width * sqrt(2 pi) of the ring's topics.
        covered = spec.hot_width_share * math.sqrt(2.0 * math.pi)
        in_reach = covered * spec.topics_per_namespace * len(spec.namespaces)
        hot = np.where(born[order] == -math.inf, spec.rate_total * spec.hot_share / in_reach, 0.0)
        return _Topics(sorted_hashes, base[order], hot, ring, phase, born[order])

    def _newborn(self, namespace: str, at: int, there: int) -> tuple[list[int], Floats, Floats]:
        """Topics born in bundle `at`, which has `there` topics at the start (rule 4)."""
        spec = self.spec
        self.growing_bundle = str(bundles_of(namespace, self._boundaries)[at])
        count = max(2 * (spec.growing_topics + 1 - there), 0)
        hashes: list[int] = []
        number = 0
        while len(hashes) < count:
            value = topic_hash(f"persistent://{namespace}/growing-{number:05d}")
            number += 1
            if bundle_index(self._boundaries, value) == at:
                hashes.append(value)
        pace_ms = spec.growing_at_share * spec.run_ms / max(count / 2, 1)
        born = pace_ms * (1.0 + np.arange(count, dtype=np.float64))
        return hashes, np.full(count, spec.growing_rate / max(count, 1)), born
