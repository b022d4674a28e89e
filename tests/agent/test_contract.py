"""The contract of the port passes for good brokers, and fails for each kind of bad one.

The bad ones are `LockedBroker` with one promise broken; each names the test that must catch it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.agent.contract import BrokerContract
from controller.agent.own_log import OwnLog
from controller.agent.port import Broker, BrokerError, BrokerLoad, TopicLoad
from controller.model.bundles import split_name
from controller.sim.boundaries import (
    MemoryBoundaries,
    create_namespaces,
    put_children,
)
from controller.sim.broker import Capacity, SimulatedBroker
from controller.sim.workload import Workload, WorkloadSpec
from controller.wire.reports import BundleStats, ResourceUsage
from tests.agent.example import example_broker

WORKLOAD = Workload(WorkloadSpec())
NONE = ResourceUsage(0.0, 100.0)
STATS = BundleStats(msgRateIn=0, msgRateOut=0, msgThroughputIn=0, msgThroughputOut=0, topics=0)
CLOSE_S = 0.08


class Contested(MemoryBoundaries):
    """Boundaries that somebody else changes just before a change, while it is told so."""

    is_contested = False

    def compare_and_set(
        self, namespace: str, expected_version: int, edges: tuple[int, ...]
    ) -> bool:
        found = self.read(namespace)
        if self.is_contested and found is not None:
            self.is_contested = False
            super().compare_and_set(namespace, *found)
        return super().compare_and_set(namespace, expected_version, edges)


def _boundaries(contract: BrokerContract) -> Contested:
    boundaries = Contested()
    create_namespaces(boundaries, (contract.BUNDLE, contract.OTHER))
    return boundaries


class TestSimulatedBroker(BrokerContract):
    @pytest.fixture(autouse=True)
    def _own_logs(self, tmp_path: Path) -> None:
        self.own_logs = tmp_path

    def make_broker(self) -> Broker:
        capacity = Capacity(close_ms=1_000 * CLOSE_S)
        own_log = OwnLog(self.own_logs / "own.jsonl", "b1")
        boundaries = _boundaries(self)
        return SimulatedBroker(WORKLOAD, capacity, own_log, lambda: 0.0, boundaries)

    def served(self, broker: Broker) -> set[str]:
        assert isinstance(broker, SimulatedBroker)
        return set(broker.served)

    def change_boundaries(self, broker: Broker) -> bool:
        assert isinstance(broker, SimulatedBroker)
        assert isinstance(broker._boundaries, Contested)
        broker._boundaries.is_contested = True
        return True


class TestExampleBroker(BrokerContract):
    def make_broker(self) -> Broker:
        broker: Broker = example_broker()(_boundaries(self))
        return broker

    def served(self, broker: Broker) -> set[str]:
        return set(broker.served)  # type: ignore[attr-defined]

    def change_boundaries(self, broker: Broker) -> bool:
        broker.boundaries.is_contested = True  # type: ignore[attr-defined]
        return True


class LockedBroker:
    """A good broker, to be spoilt."""

    def __init__(self, *bundles: str) -> None:
        self.boundaries = Contested()
        create_namespaces(self.boundaries, bundles)
        self.serves: set[str] = set()
        self.is_fenced = self.is_closed = False
        self.lock = threading.Condition()

    def load_report(self) -> BrokerLoad:
        with self.lock:
            return BrokerLoad(NONE, NONE, NONE, NONE, NONE, dict.fromkeys(self.serves, STATS))

    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        return [TopicLoad(0), TopicLoad(0xFFFFFFFF, 1.5, 150.0)]

    def acquire(self, bundle: str) -> None:
        with self.lock:
            self.refuse()
            self.serves.add(bundle)

    def release(self, bundle: str, destination: str | None) -> None:
        with self.lock:
            self.lock.wait_for(lambda: bundle not in self.serves, CLOSE_S)
            self.serves.discard(bundle)

    def drop(self, bundle: str) -> None:
        with self.lock:
            self.serves.discard(bundle)
            self.lock.notify_all()

    def redirect(self, bundle: str, owner: str | None) -> None:
        pass

    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        with self.lock:
            self.refuse()
        put_children(self.boundaries, bundle, children)
        with self.lock:
            self.refuse()
            if bundle in self.serves:
                self.serves.discard(bundle)
                self.serves.update(children)

    def fence(self) -> None:
        with self.lock:
            self.is_fenced = True
            self.serves.clear()
            self.lock.notify_all()

    def unfence(self) -> None:
        self.is_fenced = self.is_closed

    def close(self) -> None:
        self.is_closed = True
        self.fence()

    def refuse(self) -> None:
        if self.is_fenced:
            raise BrokerError("fenced")


class Contract(BrokerContract):
    """Run by hand, for a broker of a class."""

    __test__ = False

    def __init__(self, kind: type[LockedBroker]) -> None:
        self.kind = kind

    def make_broker(self) -> Broker:
        return self.kind(self.BUNDLE, self.OTHER)

    def served(self, broker: Broker) -> set[str]:
        assert isinstance(broker, LockedBroker)
        with broker.lock:
            return set(broker.serves)

    def change_boundaries(self, broker: Broker) -> bool:
        assert isinstance(broker, LockedBroker)
        broker.boundaries.is_contested = True
        return True


class ServesAtOnce(LockedBroker):
    def __init__(self, *bundles: str) -> None:
        super().__init__(*bundles)
        self.serves.update(bundles)


class ForgetsToServe(LockedBroker):
    def acquire(self, bundle: str) -> None:
        self.refuse()


class AcquiresOnce(LockedBroker):
    def acquire(self, bundle: str) -> None:
        if bundle in self.serves:
            raise BrokerError("is served already")
        super().acquire(bundle)


class ReleasesLater(LockedBroker):
    def release(self, bundle: str, destination: str | None) -> None:
        threading.Timer(CLOSE_S, self.serves.discard, (bundle,)).start()


class ReleasesOnlyWhatItServes(LockedBroker):
    def release(self, bundle: str, destination: str | None) -> None:
        if bundle not in self.serves:
            raise BrokerError("is not served")
        super().release(bundle, destination)


class ReleaseHoldsTheLock(LockedBroker):
    def release(self, bundle: str, destination: str | None) -> None:
        with self.lock:
            time.sleep(3.0)
            self.serves.discard(bundle)


class ReleaseGoesOnServing(LockedBroker):
    """A drop is forgotten by the release that still runs."""

    def release(self, bundle: str, destination: str | None) -> None:
        was_served = bundle in self.serves
        end_s = time.monotonic() + CLOSE_S
        while was_served and time.monotonic() < end_s:
            self.serves.add(bundle)
            time.sleep(0.001)
        self.serves.discard(bundle)


class DropWaitsForClients(LockedBroker):
    def drop(self, bundle: str) -> None:
        time.sleep(CLOSE_S * 3)
        super().drop(bundle)


class DropsEverything(LockedBroker):
    def drop(self, bundle: str) -> None:
        self.serves.clear()


class ReportsOldBundles(LockedBroker):
    def load_report(self) -> BrokerLoad:
        self.ever = getattr(self, "ever", set()) | self.serves
        return BrokerLoad(NONE, NONE, NONE, NONE, NONE, dict.fromkeys(self.ever, STATS))


class ReportsNoIdleBundles(LockedBroker):
    def load_report(self) -> BrokerLoad:
        return BrokerLoad(NONE, NONE, NONE, NONE, NONE, {})


class RedirectServes(LockedBroker):
    def redirect(self, bundle: str, owner: str | None) -> None:
        if owner is None:
            self.serves.add(bundle)


class HashesBeyond32Bits(LockedBroker):
    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        return [TopicLoad(1 << 32)]


class TopicsWithoutNumbers(LockedBroker):
    def topic_loads(self, bundle: str) -> list[TopicLoad]:
        return [TopicLoad(1, math.nan)]


class KeepsTheParent(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        super().split(bundle, children)
        self.serves.add(bundle)


class SplitsInTwoOnly(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        super().split(bundle, (children[0], children[-1]))


class SplitsOnce(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        found = self.boundaries.read(split_name(bundle)[0])
        if found is not None and split_name(children[0])[2] in found[1]:
            raise BrokerError("was split already")
        super().split(bundle, children)


class ServesChildrenOfOthers(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        super().split(bundle, children)
        self.serves.update(children)


class IgnoresBoundaries(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        self.refuse()
        if bundle in self.serves or not self.serves:
            self.serves.discard(bundle)
            self.serves.update(children)


class OverwritesBoundaries(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        while True:
            try:
                super().split(bundle, children)
                return
            except BrokerError as error:
                if self.is_fenced or "neither" in str(error):
                    raise


class SplitForgetsTheDrop(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        was_served = bundle in self.serves
        put_children(self.boundaries, bundle, children)
        time.sleep(0.002)
        with self.lock:
            self.refuse()
            if was_served:
                self.serves.discard(bundle)
                self.serves.update(children)


class FenceForgets(LockedBroker):
    def fence(self) -> None:
        with self.lock:
            self.serves.clear()


class UnfenceBringsBack(LockedBroker):
    def fence(self) -> None:
        self.before = set(self.serves) or getattr(self, "before", set())
        super().fence()

    def unfence(self) -> None:
        super().unfence()
        self.serves |= self.before


class AcquireOvertakesTheFence(LockedBroker):
    def acquire(self, bundle: str) -> None:
        self.refuse()
        time.sleep(0.002)
        self.serves.add(bundle)


class SplitOvertakesTheFence(LockedBroker):
    def split(self, bundle: str, children: tuple[str, ...]) -> None:
        self.refuse()
        time.sleep(0.002)
        if bundle in self.serves or self.is_fenced:
            self.serves.discard(bundle)
            self.serves.update(children)


class CloseHoldsTheLock(LockedBroker):
    def close(self) -> None:
        with self.lock:
            time.sleep(3.0)
            super().close()


class CloseIsForgotten(LockedBroker):
    def close(self) -> None:
        self.fence()


SPOILT: list[tuple[type[LockedBroker], Callable[[Contract], None]]] = [
    (ServesAtOnce, Contract.test_a_new_broker_serves_nothing),
    (ForgetsToServe, Contract.test_acquire_serves_and_is_idempotent),
    (AcquiresOnce, Contract.test_acquire_serves_and_is_idempotent),
    (ReleasesLater, Contract.test_release_ends_service_and_is_idempotent),
    (ReleasesOnlyWhatItServes, Contract.test_release_ends_service_and_is_idempotent),
    (ReleasesLater, Contract.test_releases_run_side_by_side),
    (ReleaseHoldsTheLock, Contract.test_a_drop_ends_the_release_that_still_runs),
    (ReleaseHoldsTheLock, Contract.test_a_fence_overtakes_release),
    (ReleaseGoesOnServing, Contract.test_a_drop_ends_the_release_that_still_runs),
    (ReleaseGoesOnServing, Contract.test_a_fence_overtakes_release),
    (DropWaitsForClients, Contract.test_what_holds_up_the_loop_is_quick),
    (DropsEverything, Contract.test_drop_ends_service_at_once_and_is_idempotent),
    (ReportsOldBundles, Contract.test_a_report_lists_exactly_what_is_served),
    (ReportsNoIdleBundles, Contract.test_a_report_lists_exactly_what_is_served),
    (RedirectServes, Contract.test_a_redirect_serves_nothing_and_may_come_for_any_bundle),
    (HashesBeyond32Bits, Contract.test_topic_loads_are_hashes_and_loads),
    (TopicsWithoutNumbers, Contract.test_topic_loads_are_hashes_and_loads),
    (KeepsTheParent, Contract.test_a_split_serves_the_children_instead_and_is_idempotent),
    (SplitsInTwoOnly, Contract.test_a_split_serves_the_children_instead_and_is_idempotent),
    (SplitsOnce, Contract.test_a_split_serves_the_children_instead_and_is_idempotent),
    (
        ServesChildrenOfOthers,
        Contract.test_a_split_of_a_bundle_that_is_not_served_serves_nothing,
    ),
    (IgnoresBoundaries, Contract.test_a_split_that_fits_no_boundaries_fails_and_changes_nothing),
    (OverwritesBoundaries, Contract.test_a_split_that_loses_the_race_for_the_boundaries_says_so),
    (SplitForgetsTheDrop, Contract.test_a_drop_ends_the_split_that_still_runs),
    (FenceForgets, Contract.test_a_fence_ends_everything_until_it_is_lifted),
    (UnfenceBringsBack, Contract.test_a_fence_ends_everything_until_it_is_lifted),
    (AcquireOvertakesTheFence, Contract.test_a_fence_overtakes_acquire),
    (SplitOvertakesTheFence, Contract.test_a_fence_overtakes_split),
    (CloseHoldsTheLock, Contract.test_a_fence_overtakes_close),
    (CloseIsForgotten, Contract.test_close_ends_everything_for_good),
]


@pytest.mark.parametrize(
    ("kind", "test"), SPOILT, ids=[f"{kind.__name__}-{test.__name__}" for kind, test in SPOILT]
)
def test_a_broken_promise_is_caught(
    kind: type[LockedBroker], test: Callable[[Contract], None]
) -> None:
    with pytest.raises((AssertionError, BrokerError)):
        test(Contract(kind))


def test_each_test_of_the_contract_catches_somebody() -> None:
    names = {name for name in vars(BrokerContract) if name.startswith("test_")}
    assert {test.__name__ for _, test in SPOILT} == names


@pytest.mark.parametrize(
    "name", sorted(name for name in vars(BrokerContract) if name.startswith("test_"))
)
def test_the_broker_that_is_spoilt_is_a_good_one(name: str) -> None:
    getattr(Contract(LockedBroker), name)()
