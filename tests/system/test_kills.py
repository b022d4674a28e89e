"""SIGKILL in the middle of a move, on real processes: whoever dies, ownership converges.

One cluster for all cases (Spark starts once): each case ends with all brokers back. What is
asserted in every case: within 30 s of the kill nothing is in flight, every bundle is served by its
owner, and no hash was served by two brokers at any instant (brokers' own logs).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from controller.wire.channel import ServiceUnitState
from controller.wire.commands import SplitBundle, Transfer
from tests.system.cluster import BROKERS, CONVERGED_S, JOB, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
S = ServiceUnitState


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("kills"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def some_move(cluster: Cluster) -> tuple[str, str, str]:
    """A bundle, its owner, and another broker."""
    source = max(BROKERS, key=lambda broker: (len(cluster.owned_by(broker)), broker))
    destination = min(BROKERS, key=lambda broker: (len(cluster.owned_by(broker)), broker))
    assert source != destination
    return cluster.owned_by(source)[0], source, destination


def converges(cluster: Cluster, killed_s: float) -> float:
    """Waits until all is well; returns the seconds since the kill."""
    cluster.until(cluster.is_settled, "converges", CONVERGED_S - (time.monotonic() - killed_s))
    took_s = time.monotonic() - killed_s
    assert cluster.observer.service.overlaps == []
    assert cluster.observer.service.gaps_too_long == 0
    print(f"converged {took_s:.1f} s after the kill")
    return took_s


def all_back(cluster: Cluster, *names: str) -> None:
    """Starts again what was killed, and waits until it is there."""
    for name in names:
        cluster.start_broker(name)
    cluster.until(lambda: set(BROKERS) <= cluster.observer.service.live, "brokers are back")
    cluster.until(cluster.is_settled, "all is served")


def job_again(cluster: Cluster) -> None:
    """Starts the killed job again; returns when it has committed a batch."""
    batches = cluster.batches()
    cluster.start_job()
    cluster.until(lambda: cluster.batches() > batches, "the job is back", 90)


def begin_transfer(cluster: Cluster) -> tuple[str, str, str]:
    """Returns as soon as the Releasing record is there: the source is closing now."""
    bundle, source, destination = some_move(cluster)
    cluster.send(Transfer(bundle=bundle, destination=destination, who="test"))
    cluster.until(lambda: cluster.state(bundle) is S.Releasing, "the transfer begins")
    return bundle, source, destination


def test_the_owner_dies_during_a_transfer(cluster: Cluster) -> None:
    bundle, source, destination = begin_transfer(cluster)
    cluster.kill(source)
    killed_s = time.monotonic()
    converges(cluster, killed_s)
    assert bundle in cluster.owned_by(destination)
    all_back(cluster, source)


def test_the_destination_dies_before_it_owns_the_bundle(cluster: Cluster) -> None:
    bundle, _, destination = some_move(cluster)
    cluster.pause(destination)
    cluster.send(Transfer(bundle=bundle, destination=destination, who="test"))
    cluster.until(lambda: cluster.state(bundle) is S.Assigning, "the source has let go", 10)
    cluster.kill(destination)
    killed_s = time.monotonic()
    converges(cluster, killed_s)
    assert bundle not in cluster.owned_by(destination)
    all_back(cluster, destination)


def test_the_owner_dies_during_a_split(cluster: Cluster) -> None:
    bundle, source, _ = some_move(cluster)
    cluster.send(SplitBundle(bundle=bundle, who="test"))
    cluster.until(lambda: cluster.state(bundle) in (S.Splitting, S.Deleted), "the split begins")
    cluster.kill(source)
    killed_s = time.monotonic()
    converges(cluster, killed_s)
    assert cluster.state(bundle) in (S.Deleted, None)
    all_back(cluster, source)


def test_the_controller_dies_between_the_two_records_of_a_transfer(cluster: Cluster) -> None:
    bundle, _, destination = begin_transfer(cluster)
    cluster.kill(JOB)
    killed_s = time.monotonic()
    assert cluster.state(bundle) in (S.Releasing, S.Assigning), "the move was over already"
    converges(cluster, killed_s)
    assert bundle in cluster.owned_by(destination)
    job_again(cluster)


def test_owner_and_controller_die_together(cluster: Cluster) -> None:
    """A standby takes over: to start Spark anew may take longer than 30 s on a busy machine."""
    cluster.start_standby()
    bundle, source, _ = begin_transfer(cluster)
    cluster.kill(source)
    cluster.kill(JOB)
    killed_s = time.monotonic()
    converges(cluster, killed_s)
    assert bundle not in cluster.owned_by(source)
    all_back(cluster, source)
