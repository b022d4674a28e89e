"""Classes that work on figures alone: boundaries, top-k, averages, hashes, the conflict rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from controller.channel.conflict import keep_old
from controller.channel.states import Storage
from controller.core.state.tables import bundle_table
from controller.core.state.windows import add_samples
from controller.decide.conf import ALGORITHMS
from controller.decide.forms import (
    AlgorithmTick,
    ChannelRecord,
    ConflictCase,
    ConflictTick,
    HashTick,
    LoadTick,
    SampleTick,
    TopTick,
)
from controller.decide.runner import Answer, Runner
from controller.decide.scenario import ScenarioError
from controller.decide.topics import loads_of, topics_in
from controller.load.averages import BrokerAverages
from controller.load.namespaces import left_out
from controller.load.top import top_k
from controller.model.boundaries import (
    flow_boundaries,
    positions_inside,
    range_midpoint,
    topic_count_boundary,
)
from controller.model.bundles import (
    Bundle,
    bundle_index,
    bundles_of,
    equal_boundaries,
    full_topic_name,
    split_range,
    topic_hash,
    topic_namespace,
)
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, has_text

FULL = ["0x00000000", "0xffffffff"]
FORCE = "specified_positions_divide_force"


def hashes_of(texts: list[str]) -> list[int]:
    """Boundaries written as 0x%08x."""
    try:
        found = [int(text, 16) for text in texts]
    except ValueError as error:
        raise ScenarioError(str(error), "boundaries") from None
    if len(found) < 2 or any(a >= b for a, b in pairwise(found)):
        raise ScenarioError("must be two or more, ascending", "boundaries")
    return found


class SplitAlgorithm(Runner[AlgorithmTick]):
    """BundleSplitAlgorithm: positions by one algorithm, then the children."""

    form = AlgorithmTick

    def tick(self, tick: AlgorithmTick) -> Answer:
        """One split."""
        if tick.algorithm not in ALGORITHMS | {FORCE}:
            raise ScenarioError(f"{tick.algorithm!r} is no split algorithm", "algorithm")
        found = topics_in(tick.bundle, tick.topics)
        answer: Answer = {"topicsInBundle": len(found)}
        if self.parity and self._is_wrong_cast(tick):
            return {**answer, "error": "ClassCastException"}
        if "specified" in tick.algorithm and not tick.positions:
            return {**answer, "error": "IllegalArgumentException"}
        positions = self._positions(tick, [h for h, _ in found])
        answer["positions"] = positions or None
        if positions:
            answer |= self._children(tick, positions)
        return answer

    def _is_wrong_cast(self, tick: AlgorithmTick) -> bool:
        flow = "flow_or_qps_equally_divide"
        default = tick.defaultAlgorithm or tick.algorithm
        return tick.algorithm == flow and default != flow

    def _positions(self, tick: AlgorithmTick, hashes: list[int]) -> list[int]:
        whole = Bundle.parse(tick.bundle).range
        if tick.algorithm == "range_equally_divide":
            return [range_midpoint(whole.lower, whole.upper)]
        if tick.algorithm == "topic_count_equally_divide":
            middle = topic_count_boundary(hashes)
            return [] if middle is None else [middle]
        if tick.algorithm == "flow_or_qps_equally_divide":
            loads = loads_of(tick.bundle, tick.topics, tick.topicStats)
            params = self.settings.thresholds
            columns = (loads.hashes.tolist(), loads.rates.tolist(), loads.throughputs.tolist())
            return flow_boundaries(
                list(zip(*columns, strict=True)),
                params.rate_max,
                params.throughput_max,
                params.flow_difference_points / 100.0,
            )
        if tick.algorithm != FORCE and len(hashes) < 2:
            return []
        return positions_inside(tick.positions or (), whole.lower, whole.upper)

    def _children(self, tick: AlgorithmTick, positions: list[int]) -> Answer:
        whole = Bundle.parse(tick.bundle).range
        edges = hashes_of(FULL if tick.boundaries is None else tick.boundaries)
        try:
            parts = split_range(whole, positions)
        except ValueError:
            return {"childrenError": "IllegalArgumentException"}
        if (whole.lower, whole.upper) not in set(pairwise(edges)):
            return {"children": None}
        return {"children": [str(part) for part in parts]}


class TopK(Runner[TopTick]):
    """TopKBundles: the largest bundles of a report, smallest first."""

    form = TopTick

    def tick(self, tick: TopTick) -> Answer:
        """One report."""
        names = list(tick.bundleStats)
        namespaces = [name.rpartition("/")[0] for name in names]
        policies = {*tick.policyNamespaces.isolation, *tick.policyNamespaces.antiAffinity}
        transfer = self.settings.transfer
        out = left_out(
            namespaces,
            self.settings.actions.excluded_namespaces,
            policies,
            sheds_with_policies=transfer.sheds_bundles_with_policies,
        )
        figures = [
            (
                s.msgRateIn,
                s.msgRateOut,
                s.msgThroughputIn,
                s.msgThroughputOut,
                s.consumerCount + s.producerCount,
                s.topics,
                s.cacheSize,
            )
            for s in tick.bundleStats.values()
        ]
        order = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"))
        k = transfer.top_bundles_max if tick.topk is None else tick.topk
        top = top_k(np.array(figures, np.float64).reshape(-1, 7), k, order, out)
        return {"top": [names[at] for at in top.tolist()]}


class LoadData(Runner[LoadTick]):
    """BrokerLoadData: smoothed load of one broker."""

    form = LoadTick

    def start(self) -> None:
        """The empty record."""
        self.averages = BrokerAverages()

    def tick(self, tick: LoadTick) -> Answer:
        """One sample, or a clearing."""
        broker = tick.broker
        if tick.clear:
            self.averages = self.averages.cleared()
        else:
            self.averages = self.averages.updated(
                broker.usage,
                broker.msgThroughputIn + broker.msgThroughputOut,
                self.settings.weights,
                self.settings.windows.broker_history_ratio,
            )
        return {
            "maxResourceUsage": self.averages.max_usage,
            "weightedMaxEMA": self.averages.weighted_max_ema,
            "msgThroughputEMA": self.averages.throughput_ema,
        }


class Windows(Runner[SampleTick]):
    """BundleData: short- and long-term averages of one bundle."""

    form = SampleTick

    def start(self) -> None:
        """A bundle without samples; what it begins with is overwritten by the first."""
        self.bundles = bundle_table("float64")
        self.bundles.add(self.scenario.id)

    def tick(self, tick: SampleTick) -> Answer:
        """One sample."""
        s = tick.sample
        traffic = (s.msgRateIn, s.msgRateOut, s.msgThroughputIn, s.msgThroughputOut)
        sample = np.array([[*traffic, s.consumerCount + s.producerCount, s.topics, s.cacheSize]])
        slots = np.zeros(1, np.int64)
        add_samples(self.bundles, [(slots, sample, 1)], tick.shortSamples, tick.longSamples)
        count = int(self.bundles["samples"][0])
        return {
            "topics": int(self.bundles["topics"][0]),
            "shortTerm": self._average("short", min(count, tick.shortSamples)),
            "longTerm": self._average("long", min(count, tick.longSamples)),
        }

    def _average(self, column: str, samples: int) -> Answer:
        rate_in, rate_out, bytes_in, bytes_out = self.bundles[column][0].tolist()
        return {
            "numSamples": samples,
            "msgRateIn": rate_in,
            "msgRateOut": rate_out,
            "msgThroughputIn": bytes_in,
            "msgThroughputOut": bytes_out,
        }


class Hashes(Runner[HashTick]):
    """BundleHash: bundles of a namespace, and the bundle of each topic."""

    form = HashTick

    def tick(self, tick: HashTick) -> Answer:
        """One namespace."""
        if (tick.boundaries is None) == (tick.numBundles is None):
            raise ScenarioError("give numBundles or boundaries", "numBundles")
        try:
            edges = (
                equal_boundaries(tick.numBundles or 0)
                if tick.boundaries is None
                else hashes_of(tick.boundaries)
            )
            bundles = [str(one) for one in bundles_of(tick.namespace, edges)]
        except ValueError as error:
            raise ScenarioError(str(error), "numBundles") from None
        return {
            "boundaries": [f"0x{edge:08x}" for edge in edges],
            "bundles": bundles,
            "topics": [
                {"topic": topic, **self._topic(topic, tick.namespace, edges, bundles)}
                for topic in tick.topics
            ],
        }

    def _topic(self, topic: str, namespace: str, edges: list[int], bundles: list[str]) -> Answer:
        try:
            full = full_topic_name(topic)
            number = topic_hash(full)
            answer: Answer = {"hash": number}
            if topic_namespace(full) != namespace:
                return {**answer, "error": "IllegalArgumentException"}
            return {**answer, "bundle": bundles[bundle_index(edges, number)]}
        except ValueError as error:
            raise ScenarioError(str(error), "topics") from None


STORAGES: dict[str, Storage] = {"SystemTopic": "log", "MetadataStore": "metadata"}
INVALID = "invalid:IllegalArgumentException"
NO_OWNER = "error:NullPointerException"


class Conflict(Runner[ConflictTick]):
    """ServiceUnitStateConflict: whether the record that stands is kept."""

    form = ConflictTick

    def tick(self, tick: ConflictTick) -> Answer:
        """Many pairs."""
        return {"keepLeft": [self._verdict(case, STORAGES[tick.storage]) for case in tick.cases]}

    def _verdict(self, case: ConflictCase, storage: Storage) -> bool | str:
        if not (_can_be_built(case.before) and _can_be_built(case.after)):
            return INVALID
        old, new = _record(case.before), _record(case.after)
        reason = keep_old(old, new, storage)
        if reason == "broker_mismatch" and _breaks_pulsar(old, new):
            return NO_OWNER
        return reason is not None


def _can_be_built(given: ChannelRecord | None) -> bool:
    return given is None or given.state == "Free" or has_text(given.dst) or has_text(given.src)


def _record(given: ChannelRecord | None) -> ServiceUnitStateData | None:
    if given is None:
        return None
    return ServiceUnitStateData(
        state=ServiceUnitState(given.state),
        dstBroker=given.dst,
        sourceBroker=given.src,
        force=given.force,
        timestamp=0,
        versionId=given.version,
    )


def _breaks_pulsar(old: ServiceUnitStateData | None, new: ServiceUnitStateData | None) -> bool:
    """Pulsar dies of an Owned record without owner; here the old record simply stays.

    Only if no check before the one it dies in has rejected the new record.
    """
    if old is None or new is None:
        return False
    if old.state is not ServiceUnitState.Owned or old.dstBroker is not None:
        return False
    if new.state is ServiceUnitState.Splitting:
        return not has_text(new.dstBroker)
    return has_text(new.sourceBroker)
