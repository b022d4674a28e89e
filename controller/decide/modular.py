"""The modular manager's shedders, placements and splitter."""

from __future__ import annotations

from typing import Any

import numpy as np

from controller.core.settings import Settings
from controller.decide.forms import ModularBroker, ModularTick, Select
from controller.decide.picture import BrokerRow, BundleRow, Picture, averaged, figures
from controller.decide.runner import Answer, Runner
from controller.load.namespaces import belongs_to_a_broker
from controller.load.usage import load_ratio
from controller.strategies.memory import Memory, only
from controller.strategies.place.avg import key_of
from controller.strategies.protocols import ShedPlan, Unowned
from controller.strategies.registry import PLACE, SHED, SPLIT
from controller.strategies.view import ClusterView


def broker_row(broker: ModularBroker, settings: Settings) -> BrokerRow:
    """A broker of the modular manager; preallocated bundles count for its long-term rate."""
    load = load_ratio(broker.usage, settings.weights)
    given = [data.long for data in broker.preallocated.values()]
    return BrokerRow(
        load=load,
        load_ema=load,
        rate=broker.msgRateIn + broker.msgRateOut,
        throughput=broker.msgThroughputIn + broker.msgThroughputOut,
        long_rate=broker.timeAverage.longTermMsgRateIn
        + broker.timeAverage.longTermMsgRateOut
        + sum(average.msgRateIn + average.msgRateOut for average in given),
        bundles=len(broker.bundles),
        capacity=broker.cpu.limit,
    )


class Shedder(Runner[ModularTick]):
    """Overload, Threshold, Uniform and Avg: load off brokers, the destination chosen later."""

    form = ModularTick
    name = ""

    def start(self) -> None:
        """Nothing is remembered yet."""
        self.memory: Memory = {}

    def tick(self, tick: ModularTick) -> Answer:
        """One round."""
        if tick.activeBrokers is not None:
            self.memory = self.active(tick.activeBrokers)
        view = self.view(tick)
        plan = SHED[self.name](self.settings).shed(view, self.memory)
        self.memory = plan.memory
        return {"decisions": decisions(view, plan), **self.details(view, plan)}

    def active(self, brokers: list[str]) -> Memory:
        """What is remembered of the brokers that are left."""
        return only(self.memory, set(brokers))

    def details(self, view: ClusterView, plan: ShedPlan) -> Answer:
        """What a class answers beside its decisions."""
        return {}

    def view(self, tick: ModularTick) -> ClusterView:
        """Every bundle of every broker of which averages are known."""
        recent = set(tick.recentlyUnloaded)
        rows: list[BundleRow] = []
        for name, broker in tick.brokers.items():
            for bundle in broker.bundles:
                data = tick.bundleData.get(bundle)
                if data is None or belongs_to_a_broker(bundle.rpartition("/")[0]):
                    continue
                row = averaged(bundle, name, data)
                row.is_movable = bundle not in recent
                rows.append(row)
        brokers = {name: broker_row(one, self.settings) for name, one in tick.brokers.items()}
        return Picture(brokers, rows).view()


class Overload(Shedder):
    """OverloadShedder."""

    name = "overload"


class Threshold(Shedder):
    """ThresholdShedder."""

    name = "threshold"

    def details(self, view: ClusterView, plan: ShedPlan) -> Answer:
        """Smoothed usages."""
        return {"info": {"usage": dict(plan.memory.get("history", {}))}}


class Uniform(Shedder):
    """UniformLoadShedder."""

    name = "uniform"


class Avg(Shedder):
    """AvgShedder, also as placement: `select` asks for the destinations of bundles."""

    name = "avg"

    def start(self) -> None:
        """Nothing is remembered, by shedding or by placement."""
        super().start()
        self.placed: Memory = {}
        self.drawn: set[str] = set()

    def active(self, brokers: list[str]) -> Memory:
        """Pulsar's class keeps the counts of brokers that are gone."""
        return self.memory if self.parity else super().active(brokers)

    def tick(self, tick: ModularTick) -> Answer:
        """One round, then the questions."""
        place = PLACE["avg"](self.settings)
        if tick.report == "selectOnly":
            view = self.view(tick)
            answer: Answer = {"decisions": [], **self.hits(self.memory), **scores(view)}
        else:
            if tick.activeBrokers is not None:
                self.memory = self.active(tick.activeBrokers)
            view = self.view(tick)
            plan = SHED["avg"](self.settings).shed(view, self.memory)
            self.memory = plan.memory
            self.placed = place.after_shed(view, plan, self.placed)
            self.drawn -= {key_of(view, t.bundle, self.parity) for t in plan.transfers}
            answer = {"decisions": decisions(view, plan), **self.hits(plan.memory), **scores(view)}
        if tick.select:
            answer["select"] = self.select(tick.select, view)
        return answer

    def hits(self, memory: Memory) -> Answer:
        """Counts above 0."""
        return {
            answer: {name: n for name, n in memory.get(kind, {}).items() if int(n) > 0}
            for answer, kind in (("hitHigh", "high"), ("hitLow", "low"))
        }

    def select(self, asked: list[Select], view: ClusterView) -> list[Answer]:
        """Destinations; one that was drawn is only said to be so."""
        placement = PLACE["avg"](self.settings).begin(view, self.placed)
        rows = {name: at for at, name in enumerate(view.bundle_names)}
        index = {name: at for at, name in enumerate(view.broker_names)}
        answers = []
        for one in asked:
            at = rows.get(one.bundle, -1)
            candidates = np.array([index[b] for b in one.candidates if b in index], np.int64)
            bundle = Unowned(one.bundle, 0, 0.0, -1, at=at, candidates=candidates)
            key = key_of(view, at, self.parity) if at >= 0 else one.bundle
            before = placement.memory.get("destinations", {}).get(key)
            first, again = placement.choose(bundle).broker, placement.choose(bundle).broker
            broker = view.broker_names[first] if first >= 0 else None
            is_shed = broker is not None and broker == before and key not in self.drawn
            if not is_shed:
                self.drawn.add(key)
            answers.append(
                {
                    "bundle": one.bundle,
                    "remembered": "shed" if is_shed else "random",
                    "broker": broker if is_shed else None,
                    "inCandidates": broker in one.candidates,
                    "sticky": first == again,
                }
            )
        self.placed = placement.memory
        return answers


def scores(view: ClusterView) -> Answer:
    """Loads in points."""
    points = (view.broker_load * 100.0).tolist()
    return {"info": {"scores": dict(zip(view.broker_names, points, strict=True))}}


def decisions(view: ClusterView, plan: ShedPlan) -> list[Answer]:
    """Transfers with their rank among those of their source."""
    ranks: dict[int, int] = {}
    answers = []
    for transfer in plan.transfers:
        rank = ranks.get(transfer.source, 0)
        ranks[transfer.source] = rank + 1
        to = view.broker_names[transfer.destination] if transfer.destination >= 0 else None
        answers.append(
            {
                "bundle": view.bundle_names[transfer.bundle],
                "from": view.broker_names[transfer.source],
                "to": to,
                "rank": rank,
            }
        )
    return answers


class Placement(Runner[ModularTick]):
    """LeastLongTermMessageRate, LeastResourceUsageWithWeight: one choice a tick."""

    form = ModularTick
    name = ""

    def start(self) -> None:
        """Nothing is remembered yet."""
        self.memory: Memory = {}

    def tick(self, tick: ModularTick) -> Answer:
        """One choice for a bundle of which nothing is known."""
        if tick.activeBrokers is not None:
            self.memory = only(self.memory, set(tick.activeBrokers))
        brokers = {name: broker_row(one, self.settings) for name, one in tick.brokers.items()}
        view = Picture(with_all(brokers, tick.candidates)).view()
        placement = PLACE[self.name](self.settings).begin(view, self.memory)
        answer = chosen(view, placement, tick.candidates)
        self.memory = placement.memory
        return {**answer, **self.details()}

    def details(self) -> Answer:
        """What a class answers beside its choice."""
        return {}


def with_all(brokers: dict[str, BrokerRow], candidates: list[str]) -> dict[str, BrokerRow]:
    """The brokers, and candidates of which nothing is known."""
    return {name: BrokerRow(reported_ms=0) for name in candidates} | brokers


def chosen(view: ClusterView, placement: Any, candidates: list[str]) -> Answer:
    """The set a class draws from, and the broker if there is no draw."""
    index = {name: at for at, name in enumerate(view.broker_names)}
    wanted = np.array([index[name] for name in candidates], np.int64)
    choice = placement.choose(Unowned("", 0, 0.0, -1, candidates=wanted))
    best = [view.broker_names[at] for at in choice.best]
    return {
        "best": best,
        "broker": best[0] if len(best) == 1 else None,
        "inBest": choice.broker in choice.best,
    }


class MessageRate(Placement):
    """LeastLongTermMessageRate."""

    name = "least_long_term_rate"


class UsageModular(Placement):
    """LeastResourceUsageWithWeight."""

    name = "least_usage_modular"

    def details(self) -> Answer:
        """Smoothed usages."""
        return {"info": {"usage": dict(self.memory.get("history", {}))}}


class RoundRobin(Placement):
    """RoundRobinBrokerSelector."""

    name = "round_robin"

    def tick(self, tick: ModularTick) -> Answer:
        """The broker alone."""
        answer = super().tick(tick)
        return {"broker": answer["broker"]}


class Splitter(Runner[ModularTick]):
    """BundleSplitterTask: bundles to split, by long-term averages."""

    form = ModularTick

    def tick(self, tick: ModularTick) -> Answer:
        """One look at all reports."""
        rows = [
            self._row(tick, broker, bundle)
            for broker, data in tick.brokers.items()
            for bundle in data.stats
        ]
        brokers = {name: BrokerRow() for name in tick.brokers}
        view = Picture(brokers, rows, tick.namespaceBundleCount).view()
        plan = SPLIT["long_term"](self.settings).split(view, {})
        counts: dict[str, int] = {}
        answers = []
        for split in plan.splits:
            row = rows[split.bundle]
            namespace = row.name.rpartition("/")[0]
            counts[namespace] = counts.get(namespace, 0) + 1
            answers.append({"bundle": row.name, "from": row.owner, "to": None})
        if tick.report == "counts":
            return {"perNamespace": counts}
        return {"perNamespace": counts, "decisions": answers}

    def _row(self, tick: ModularTick, broker: str, bundle: str) -> BundleRow:
        stats, data = tick.brokers[broker].stats[bundle], tick.bundleData.get(bundle)
        return BundleRow(
            bundle,
            broker,
            long=figures(data.long) if data is not None else (0.0, 0.0, 0.0, 0.0),
            topics=stats.topics,
            sessions=stats.consumerCount + stats.producerCount,
        )
