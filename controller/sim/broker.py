"""A simulated broker: serves bundles in name only, reports load as a real one would.

Rules: what it serves is a set behind a lock, so that the agent's loop, its pool and its watchdog
may call at once; every change of the set stands in the own log before (serve) or after (stop) it
happens; closing a bundle takes time, and ends at once when the bundle is dropped or all is fenced.
Load comes from the workload alone. Run by `run_agent`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from controller.agent.own_log import OwnLog
from controller.agent.port import BrokerError, BrokerLoad, TopicLoad
from controller.sim.boundaries import Boundaries, put_children
from controller.sim.workload import BundleLoad, Workload
from controller.wire.reports import BundleStats, ResourceUsage

BITS_PER_BYTE = 8
BITS_PER_KBIT = 1_000
POINTS_PER_CORE = 100.0
SESSIONS_PER_TOPIC = 1
"""One producer and one consumer each: simulated clients are few and busy."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a simulated broker can carry, and what it costs to close a bundle."""

    rate_full: float = 70_000.0  # msg/s, in + out, that messages alone would fill the cores with
    throughput_full: float = 420e6  # byte/s, in + out, the same for copying their bytes
    cores: int = 4
    nic_kbit_per_s: float = 1_000_000.0  # each way
    memory_mb: float = 8_192.0
    direct_memory_mb: float = 4_096.0
    background_ratio: float = 0.02  # load of an idle broker
    close_ms: float = 20.0  # to close any bundle
    close_topic_ms: float = 0.5  # for each of its topics in addition


class SimulatedBroker:
    """See the module text.

    Args:
        workload: load of every bundle over time.
        capacity: size of this broker.
        own_log: where serving is recorded.
        elapsed_ms: time since the start of the workload.
        boundaries: of all namespaces of the cluster.
    """

    def __init__(
        self,
        workload: Workload,
        capacity: Capacity,
        own_log: OwnLog,
        elapsed_ms: Callable[[], float],
        boundaries: Boundaries,
    ) -> None:
        self._workload = workload
        self._capacity = capacity
        self._log = own_log
        self._elapsed_ms = elapsed_ms
        self._boundaries = boundaries
        self._served: set[str] = set()
        self._is_fenced = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._stopped = threading.Condition(self._lock)  # something is not served any more
        own_log.write("start")

    @property
    def served(self) -> frozenset[str]:
        """Bundles served at this moment."""
        with self._lock:
            return frozenset(self._served)

    def load_report(self) -> BrokerLoad:
        """See `Broker.load_report`; writes a load line to the own log."""
        bundles = sorted(self.served)
        load = self._workload.rates(bundles, self._elapsed_ms())
        sample = self._sample(bundles, load)
        ratio = load_ratio(sample)
        self._log.write("load", load_ratio=round(ratio, 5))
        return sample

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        """See `Broker.topic_loads`."""
        hashes, rates = self._workload.topic_rates(bundle, self._elapsed_ms())
        size = self._workload.spec.message_bytes
        pairs = zip(hashes.tolist(), rates.tolist(), strict=True)
        return [TopicLoad(hash_, rate, rate * size) for hash_, rate in pairs]

    def acquire(self, bundle: str) -> None:
        """See `Broker.acquire`."""
        with self._lock:
            self._refuse_if_fenced()
            self._serve(bundle)

    def release(self, bundle: str, destination: str | None) -> None:
        """See `Broker.release`; takes as long as closing the bundle's topics would."""
        with self._lock:
            if bundle not in self._served:
                return
            end_s = time.monotonic() + self._close_s(bundle)
            while bundle in self._served and (rest_s := end_s - time.monotonic()) > 0:
                self._stopped.wait(rest_s)
            self._stop(bundle)

    def drop(self, bundle: str) -> None:
        """See `Broker.drop`."""
        with self._lock:
            self._stop(bundle)

    def redirect(self, bundle: str, owner: str | None) -> None:
        """See `Broker.redirect`; clients of a simulated broker exist in its figures only."""

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        """See `Broker.split`; the boundaries are changed without holding the lock."""
        with self._lock:
            self._refuse_if_fenced()
            was_served = bundle in self._served
        put_children(self._boundaries, bundle, children)
        with self._lock:
            self._refuse_if_fenced()
            if not was_served or bundle not in self._served:
                return  # dropped meanwhile: the children come one by one, as far as they are ours
            self._stop(bundle)
            for child in children:
                self._serve(child)

    def fence(self) -> None:
        """See `Broker.fence`."""
        with self._lock:
            self._is_fenced = True
            self._stop_all("fence")

    def unfence(self) -> None:
        """See `Broker.unfence`."""
        with self._lock:
            self._is_fenced = self._is_closed

    def close(self) -> None:
        """See `Broker.close`; the last line of the own log is `exit`."""
        with self._lock:
            self._is_fenced = self._is_closed = True
            self._stop_all("exit")

    def _close_s(self, bundle: str) -> float:
        topics = int(self._workload.rates([bundle], self._elapsed_ms()).topics[0])
        return (self._capacity.close_ms + topics * self._capacity.close_topic_ms) / 1_000

    def _serve(self, bundle: str) -> None:
        if bundle not in self._served:
            self._log.write("serve", bundle)
            self._served.add(bundle)

    def _stop(self, bundle: str) -> None:
        if bundle in self._served:
            self._served.discard(bundle)
            self._log.write("stop", bundle)
            self._stopped.notify_all()

    def _stop_all(self, event: str) -> None:
        self._served.clear()
        self._log.write(event)
        self._stopped.notify_all()

    def _refuse_if_fenced(self) -> None:
        if self._is_fenced:
            raise BrokerError("fenced: the lease has run out")

    def _sample(self, bundles: list[str], load: BundleLoad) -> BrokerLoad:
        capacity = self._capacity
        bytes_in, bytes_out = float(load.throughput_in.sum()), float(load.throughput_out.sum())
        rate = float(load.rate_in.sum() + load.rate_out.sum())
        busy = capacity.background_ratio + rate / capacity.rate_full
        busy += (bytes_in + bytes_out) / capacity.throughput_full
        cores_limit = POINTS_PER_CORE * capacity.cores
        topics = int(load.topics.sum())
        return BrokerLoad(
            cpu=ResourceUsage(round(min(busy, 1.0) * cores_limit, 3), cores_limit),
            memory=ResourceUsage(0.3 * capacity.memory_mb + 0.5 * topics, capacity.memory_mb),
            direct_memory=ResourceUsage(0.1 * capacity.direct_memory_mb, capacity.direct_memory_mb),
            bandwidth_in=_bandwidth(bytes_in, capacity),
            bandwidth_out=_bandwidth(bytes_out, capacity),
            bundles={name: _stats(load, at) for at, name in enumerate(bundles)},
            version="simulated",
        )


def load_ratio(load: BrokerLoad) -> float:
    """Greatest of cpu and bandwidth usage over its limit, as the controller weighs them."""
    usages = (load.cpu, load.bandwidth_in, load.bandwidth_out)
    return max(usage.usage / usage.limit for usage in usages)


def _bandwidth(bytes_per_s: float, capacity: Capacity) -> ResourceUsage:
    kbit = bytes_per_s * BITS_PER_BYTE / BITS_PER_KBIT
    return ResourceUsage(round(min(kbit, capacity.nic_kbit_per_s), 3), capacity.nic_kbit_per_s)


def _stats(load: BundleLoad, at: int) -> BundleStats:
    topics = int(load.topics[at])
    return BundleStats(
        msgRateIn=round(float(load.rate_in[at]), 3),
        msgThroughputIn=round(float(load.throughput_in[at]), 3),
        msgRateOut=round(float(load.rate_out[at]), 3),
        msgThroughputOut=round(float(load.throughput_out[at]), 3),
        consumerCount=topics * SESSIONS_PER_TOPIC,
        producerCount=topics * SESSIONS_PER_TOPIC,
        topics=topics,
    )
