"""The broker behind a simulated agent: serves bundles in name only, closes them slowly.

Rules: it promises what `controller.agent.port.Broker` asks for and nothing more; a graceful close
goes on serving until it ends, so that an overlap shows; boundaries of namespaces are shared and
changed by compare-and-set only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.agent.port import BoundariesChangedError, BrokerError, BrokerLoad, TopicLoad
from controller.sim.boundaries import Boundaries, put_children
from controller.wire.reports import BundleStats, ResourceUsage

CAPACITY = 10_000.0  # msg/s that fill one simulated broker
BYTES_PER_MESSAGE = 100.0
NOTHING = ResourceUsage(0.0, 100.0)


@dataclass(slots=True)
class BrokerFaults:
    """What the broker does wrong at the moment, as shares of its operations."""

    acquire_fails: float = 0.0
    release_fails: float = 0.0
    split_fails: float = 0.0
    boundaries_change: float = 0.0  # somebody else changes the namespace at the same time


@dataclass(slots=True)
class ChaosBroker:
    """See the module text; `chance` is the kernel's, `rate_of` the load of a bundle in msg/s."""

    chance: Callable[[float], bool]
    rate_of: Callable[[str], float]
    boundaries: Boundaries
    faults: BrokerFaults = field(default_factory=BrokerFaults)
    served: set[str] = field(default_factory=set)
    redirected: dict[str, str | None] = field(default_factory=dict)
    is_fenced: bool = False

    def load_report(self) -> BrokerLoad:
        """See `Broker.load_report`."""
        rates = {name: self.rate_of(name) for name in sorted(self.served)}
        return BrokerLoad(
            cpu=ResourceUsage(100.0 * sum(rates.values()) / CAPACITY, 100.0),
            memory=NOTHING,
            direct_memory=NOTHING,
            bandwidth_in=NOTHING,
            bandwidth_out=NOTHING,
            bundles={
                name: BundleStats(
                    msgRateIn=rate / 2,
                    msgRateOut=rate / 2,
                    msgThroughputIn=rate * BYTES_PER_MESSAGE,
                    msgThroughputOut=rate * BYTES_PER_MESSAGE,
                    topics=10,
                )
                for name, rate in rates.items()
            },
        )

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        """See `Broker.topic_loads`; bundles here are never that big."""
        return []

    def acquire(self, bundle: str) -> None:
        """See `Broker.acquire`."""
        self._refuse_if_fenced()
        if self.chance(self.faults.acquire_fails):
            raise BrokerError("the simulated broker cannot open it")
        self.served.add(bundle)

    def release(self, bundle: str, destination: str | None) -> None:
        """See `Broker.release`; who calls has let the time of the close pass."""
        if self.chance(self.faults.release_fails):
            raise BrokerError("the simulated broker cannot close it")
        self.served.discard(bundle)

    def drop(self, bundle: str) -> None:
        """See `Broker.drop`."""
        self.served.discard(bundle)

    def redirect(self, bundle: str, owner: str | None) -> None:
        """See `Broker.redirect`."""
        self.redirected[bundle] = owner

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        """See `Broker.split`."""
        self._refuse_if_fenced()
        if self.chance(self.faults.split_fails):
            raise BrokerError("the simulated broker cannot split it")
        if self.chance(self.faults.boundaries_change):
            raise BoundariesChangedError("somebody else was quicker")
        put_children(self.boundaries, bundle, children)
        if bundle in self.served:
            self.served.remove(bundle)
            self.served.update(children)

    def fence(self) -> None:
        """See `Broker.fence`."""
        self.is_fenced = True
        self.served.clear()

    def unfence(self) -> None:
        """See `Broker.unfence`."""
        self.is_fenced = False

    def close(self) -> None:
        """See `Broker.close`."""
        self.is_fenced = True
        self.served.clear()

    def _refuse_if_fenced(self) -> None:
        if self.is_fenced:
            raise BrokerError("fenced")
