"""The extensible manager's shedder, placement and splitter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from controller.core.settings import Settings
from controller.decide.forms import SplitTick, StoredBroker, TransferTick
from controller.decide.modular import chosen, with_all
from controller.decide.picture import NOW_MS, BrokerRow, BundleRow, Picture, figures
from controller.decide.runner import Answer, Runner
from controller.decide.topics import loads_of
from controller.load.usage import weighted_max
from controller.model.bundles import HashRange, split_range
from controller.strategies.memory import Memory
from controller.strategies.protocols import ShedPlan
from controller.strategies.registry import PLACE, SHED, SPLIT
from controller.strategies.split.excess import PULSAR_REASONS, REASONS
from controller.strategies.view import Bools, ClusterView, Ints
from controller.wire.topics import TopicLoads

FILTER_FAILS = "!error"


def broker_row(broker: StoredBroker, settings: Settings) -> BrokerRow:
    """A record of the load data store; usages make a first EMA where none is given."""
    throughput = broker.msgThroughputIn + broker.msgThroughputOut
    usage = weighted_max(broker.usage, settings.weights)
    ema, throughput_ema = broker.weightedMaxEMA, broker.msgThroughputEMA
    if ema is None and throughput_ema is None:
        throughput_ema = throughput
    return BrokerRow(
        load_ema=usage if ema is None else ema,
        throughput=throughput,
        throughput_ema=throughput_ema or 0.0,
        reported_ms=NOW_MS - round(broker.ageMs),
    )


class Allowed:
    """What the broker filter pipeline leaves, as the scenario says."""

    def __init__(self, names: list[str], allowed: Mapping[str, list[str]], view: list[str]) -> None:
        self.names = names  # of the bundles' rows
        self.given = allowed
        self.brokers = {name: at for at, name in enumerate(sorted(view))}
        self.registered = np.zeros(len(view), np.bool_)

    def allowed(self, bundle: int) -> Bools | None:
        """See `BrokerFilter.allowed`."""
        given = self.given.get(self.names[bundle])
        if given is None:
            return self.registered
        if FILTER_FAILS in given:
            return None
        mask = np.zeros(len(self.registered), np.bool_)
        mask[[self.brokers[name] for name in given if name in self.brokers]] = True
        return mask & self.registered


class Transfer(Runner[TransferTick]):
    """TransferShedder."""

    form = TransferTick

    def start(self) -> None:
        """No hits yet."""
        self.memory: Memory = {}

    def tick(self, tick: TransferTick) -> Answer:
        """One round; without a registry there is none."""
        if tick.registryFails:
            answer: Answer = {"decisions": [], "counters": {"Failure/Unknown": 1}}
            info = {"avg": 0.0, "std": 0.0, "stdAfter": 0.0}
            left = sorted(tick.recentlyUnloadedBrokers)
            return {
                **answer,
                "hitCount": self._hits(),
                "recentlyUnloadedBrokersLeft": left,
                "info": info,
            }
        view = self.view(tick)
        plan = SHED["transfer"](self.settings).shed(view, self.memory)
        self.memory = plan.memory
        counters = {} if plan.skip is None else {f"Skip/{plan.skip}": 1}
        spread = plan.figures or {}
        answer = {
            "decisions": _decisions(view, plan),
            "counters": counters,
            "hitCount": self._hits(),
            "info": {
                "avg": spread["mean"],
                "std": spread["std"],
                "stdAfter": spread["std_after"],
            },
        }
        if plan.skip != "CoolDown":
            answer["recentlyUnloadedBrokersLeft"] = self._left(tick)
        return answer

    def view(self, tick: TransferTick) -> ClusterView:
        """Registered brokers and stored records; bundles as the brokers reported them."""
        available = set(tick.brokers if tick.available is None else tick.available)
        brokers = with_all(
            {name: broker_row(one, self.settings) for name, one in tick.brokers.items()},
            sorted(available),
        )
        for name, row in brokers.items():
            row.is_registered = name in available
            ago = tick.recentlyUnloadedBrokers.get(name)
            row.unloaded_ms = 0 if ago is None else NOW_MS - round(ago)
        rows, tops = self._bundles(tick)
        allowed = Allowed([row.name for row in rows], tick.allowed, list(brokers))
        picture = Picture(brokers, rows, tops=tops, filter=allowed)
        view = picture.view()
        allowed.registered = view.broker_is_registered
        return view

    def _bundles(self, tick: TransferTick) -> tuple[list[BundleRow], dict[str, Ints]]:
        recent = set(tick.recentlyUnloadedBundles)
        policies = {*tick.policyNamespaces.isolation, *tick.policyNamespaces.antiAffinity}
        excluded = set(self.settings.actions.excluded_namespaces)
        rows: list[BundleRow] = []
        tops: dict[str, Ints] = {}
        for broker, top in tick.topBundles.items():
            tops[broker] = np.arange(len(rows), len(rows) + len(top))
            for one in top:
                namespace = one.bundle.rpartition("/")[0]
                traffic = figures(one)
                rows.append(
                    BundleRow(
                        one.bundle,
                        tick.owner.get(one.bundle, broker),
                        now=traffic,
                        short=traffic,
                        is_movable=one.bundle not in recent,
                        is_excluded=namespace in excluded,
                        has_policy=namespace in policies,
                    )
                )
        return rows, {name: top for name, top in tops.items() if name in self._known(tick)}

    def _known(self, tick: TransferTick) -> set[str]:
        return set(tick.brokers) | set(tick.available or ())

    def _hits(self) -> int:
        return int(self.memory.get("transfer", {}).get("cluster", 0))

    def _left(self, tick: TransferTick) -> list[str]:
        """Entries that the statistics did not use up."""
        ttl_ms = self.settings.transfer.load_ttl_ms
        used = {name for name, one in tick.brokers.items() if one.ageMs <= ttl_ms}
        return sorted(set(tick.recentlyUnloadedBrokers) - used)


def _decisions(view: ClusterView, plan: ShedPlan) -> list[Answer]:
    return [
        {
            "bundle": view.bundle_names[transfer.bundle],
            "from": view.broker_names[transfer.source],
            "to": view.broker_names[transfer.destination] if transfer.destination >= 0 else None,
            "reason": transfer.reason.capitalize(),
        }
        for transfer in plan.transfers
    ]


class UsageExtensible(Runner[TransferTick]):
    """LeastResourceUsageWithWeight of the extensible manager."""

    form = TransferTick

    def tick(self, tick: TransferTick) -> Answer:
        """One choice."""
        brokers = {name: broker_row(one, self.settings) for name, one in tick.brokers.items()}
        view = Picture(with_all(brokers, tick.candidates)).view()
        placement = PLACE["least_usage_extensible"](self.settings).begin(view, {})
        return chosen(view, placement, tick.candidates)


class DefaultSplit(Runner[SplitTick]):
    """DefaultNamespaceBundleSplitStrategyImpl: a broker splits its own bundles."""

    form = SplitTick

    def start(self) -> None:
        """No hits yet."""
        self.memory: Memory = {}

    def tick(self, tick: SplitTick) -> Answer:
        """One round."""
        view = self.view(tick)
        plan = SPLIT["thresholds"](self.settings).split(view, self.memory)
        self.memory = plan.memory
        answers = []
        for split in plan.splits:
            at = split.bundle
            whole = HashRange(int(view.bundle_lower[at]), int(view.bundle_upper[at]))
            answers.append(
                {
                    "bundle": view.bundle_names[at],
                    "from": tick.self,
                    "children": [str(part) for part in split_range(whole, split.boundaries)],
                    "reason": PULSAR_REASONS[REASONS.index(split.reason)],
                }
            )
        counters = {"Failure/Unknown": plan.failures} if plan.failures else {}
        return {
            "decisions": answers,
            "counters": counters,
            "hits": dict(self.memory.get("split", {})),
        }

    def view(self, tick: SplitTick) -> ClusterView:
        """Bundles with statistics, then those that are only known to be splitting."""
        not_owned, splitting = set(tick.notOwned), set(tick.splitting)
        rows = []
        for name, stats in tick.bundleStats.items():
            traffic = figures(stats)
            rows.append(
                BundleRow(
                    name,
                    None if name in not_owned else tick.self,
                    now=traffic,
                    topics=stats.topics,
                    sessions=stats.consumerCount + stats.producerCount,
                    is_splitting=name in splitting,
                )
            )
        others = [name for name in tick.splitting if name not in tick.bundleStats]
        rows += [BundleRow(n, None, is_splitting=True, is_reported=False) for n in others]
        picture = Picture({tick.self: BrokerRow()}, rows, tick.namespaceBundleCount)
        if tick.topics:
            picture.topics = LazyTopics(tick, [row.name for row in rows])
        return picture.view()


class LazyTopics(Mapping[int, TopicLoads]):
    """Topics of a bundle, looked up when a split asks for them."""

    def __init__(self, tick: SplitTick, names: list[str]) -> None:
        self.tick = tick
        self.names = names

    def __getitem__(self, bundle: int) -> TopicLoads:
        return loads_of(self.names[bundle], self.tick.topics, self.tick.topicStats)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.names)))

    def __len__(self) -> int:
        return len(self.names)
