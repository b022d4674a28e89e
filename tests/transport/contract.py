"""What every transport must do; a subclass gives `open_log`, and its kind of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from controller.transport.errors import (
    ClosedError,
    FencedError,
    LeaseHeldError,
    TransportError,
    UnknownTopicError,
)
from controller.transport.port import LeaseState, Marker, OutRecord, Transport

OpenLog = Callable[[Callable[[], int]], Transport]


class Clock:
    """A clock that a test moves; a server has its own, so a subclass there really waits."""

    slack_ms = 0  # what may pass besides

    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def wait(self, ms: int) -> None:
        self.now_ms += ms


def out(key: str | None, value: bytes | None = b"v", topic: str = "t") -> OutRecord:
    return OutRecord(topic, key, value)


class TransportContract:
    ttl = 100  # of leases, ms; the tests wait for parts of it
    seen_s = 0.0  # from a publish to its being seen
    t, one, q = "t", "one", "q"  # names of two topics and of a job

    @pytest.fixture
    def open_log(self) -> OpenLog:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def log(self, open_log: OpenLog, clock: Clock) -> Iterator[Transport]:
        log = open_log(clock)
        log.create_topic(self.t, 4)
        log.create_topic(self.one, 1, "compact")
        yield log
        log.close()

    def out(self, key: str | None, value: bytes | None = b"v") -> OutRecord:
        return OutRecord(self.t, key, value)

    def read_all(self, log: Transport) -> list[bytes | None]:
        parts = range(log.topics()[self.t])
        return [r.value for part in parts for r in log.read(self.t, part, 0, 10_000)]

    def await_all(self, log: Transport, values: list[bytes], marker: Marker | None = None) -> None:
        """What was published is there; on a server it may take a moment to be seen."""
        deadline = time.monotonic() + self.seen_s
        while (found := self.read_all(log)) != values and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found == values
        while marker is not None and log.marker(self.q) != marker and time.monotonic() < deadline:
            time.sleep(0.01)
        assert marker is None or log.marker(self.q) == marker

    def test_equal_keys_keep_their_order_in_one_partition(self, log: Transport) -> None:
        places = log.append([self.out(f"k{i % 7}", b"%d" % i) for i in range(100)])
        for part, end in log.end_offsets(self.t).items():
            read = log.read(self.t, part, 0, 1_000)
            assert [r.offset for r in read] == list(range(end))
            assert [int(r.value or b"") for r in read] == [
                i for i, place in enumerate(places) if place[0] == part
            ]
        assert len({partition for partition, _ in places}) > 1
        assert log.start_offsets(self.t) == dict.fromkeys(range(4), 0)

    def test_gives_back_keys_tombstones_and_headers(self, log: Transport) -> None:
        headers = (("a", b"\x00\xff"), ("a", b""))
        log.append([OutRecord(self.one, "clé", None, headers), OutRecord(self.one, "k", b"")])
        first, second = log.read(self.one, 0, 0, 10)
        assert (first.key, first.value, first.headers) == ("clé", None, headers)
        assert (second.key, second.value, second.headers) == ("k", b"", ())

    def test_read_starts_and_ends_where_it_is_told(self, log: Transport) -> None:
        log.append([OutRecord(self.one, "k", b"%d" % i) for i in range(10)])
        assert [r.offset for r in log.read(self.one, 0, 4, 3)] == [4, 5, 6]
        assert [r.offset for r in log.read(self.one, 0, 7, 9)] == [7, 8, 9]
        assert log.read(self.one, 0, 10, 3) == []
        assert [r.offset for r in log.read(self.one, 0, 2, 2)] == [2, 3]

    def test_several_partitions_are_read_in_turn(self, log: Transport) -> None:
        log.append([self.out(f"k{i}", b"%d" % i) for i in range(60)])
        found: list[int] = []
        at = dict.fromkeys(range(4), 0)
        while batch := [r for part in at for r in log.read(self.t, part, at[part], 2)]:
            found += [int(r.value or b"") for r in batch]
            at.update({r.partition: r.offset + 1 for r in batch})
        assert sorted(found) == list(range(60))

    def test_a_batch_with_an_unknown_topic_writes_nothing(self, log: Transport) -> None:
        with pytest.raises(UnknownTopicError, match="missing"):
            log.append([self.out("a"), out("a", topic="missing")])
        assert self.read_all(log) == []

    def test_a_topic_again_is_fine_but_not_with_other_partitions(self, log: Transport) -> None:
        log.create_topic(self.t, 4)
        with pytest.raises(TransportError, match="4 partitions, not 5"):
            log.create_topic(self.t, 5)
        found = log.topics()
        assert (found[self.one], found[self.t]) == (1, 4)

    def test_publish_writes_records_and_marker(self, log: Transport) -> None:
        lease = log.acquire_lease(self.q, "a", self.ttl * 10)
        marker = Marker(self.q, "id", 7, lease.epoch)
        log.publish([self.out("a")], marker, lease)
        self.await_all(log, [b"v"], marker)
        assert log.marker("nobody") is None
        log.begin_writing(lease)
        last = Marker(self.q, "id", 8, lease.epoch)
        log.publish([self.out("a", b"w")], last, lease)
        self.await_all(log, [b"v", b"w"], last)

    @pytest.mark.parametrize("how", ["expired", "stolen", "older epoch", "released"])
    def test_fenced_publish_writes_nothing(self, log: Transport, clock: Clock, how: str) -> None:
        lease = log.acquire_lease(self.q, "a", self.ttl)
        if how in ("expired", "stolen"):
            clock.wait(self.ttl)
        if how == "stolen":
            log.acquire_lease(self.q, "b", self.ttl)
        if how == "older epoch":
            log.acquire_lease(self.q, "a", self.ttl)
        if how == "released":
            log.release_lease(lease)
        with pytest.raises(FencedError):
            log.publish([self.out("a")], Marker(self.q, "id", 1, lease.epoch), lease)
        assert (self.read_all(log), log.marker(self.q)) == ([], None)

    def test_who_began_to_write_last_is_the_only_one(
        self, log: Transport, open_log: OpenLog, clock: Clock
    ) -> None:
        first = log.acquire_lease(self.q, "a", self.ttl)
        log.begin_writing(first)
        log.publish([self.out("a")], Marker(self.q, "id", 1, first.epoch), first)
        other = open_log(clock)
        clock.wait(self.ttl)
        second = other.acquire_lease(self.q, "b", self.ttl * 10)
        other.begin_writing(second)
        with pytest.raises(FencedError):
            log.publish([self.out("a", b"zombie")], Marker(self.q, "id", 2, first.epoch), first)
        other.publish([self.out("a", b"w")], Marker(self.q, "id", 2, second.epoch), second)
        self.await_all(other, [b"v", b"w"])
        other.close()

    def test_a_held_lease_names_its_holder_and_the_time_left(
        self, log: Transport, clock: Clock
    ) -> None:
        first = log.acquire_lease(self.q, "host:1", self.ttl)
        clock.wait(self.ttl * 4 // 10)
        with pytest.raises(LeaseHeldError, match=rf"{self.q} is held by host:1 for ") as caught:
            log.acquire_lease(self.q, "host:2", self.ttl)
        assert 0 <= self.ttl * 6 // 10 - caught.value.remaining_ms <= clock.slack_ms
        clock.wait(self.ttl * 6 // 10)
        assert log.acquire_lease(self.q, "host:2", self.ttl).epoch == first.epoch + 1
        with pytest.raises(FencedError, match="host:2"):
            log.renew_lease(first)

    def test_anybody_can_see_who_has_a_lease(self, log: Transport, clock: Clock) -> None:
        assert log.lease_state(self.q) is None
        lease = log.acquire_lease(self.q, "a", self.ttl)
        clock.wait(self.ttl * 3 // 10)
        found = log.lease_state(self.q)
        assert found is not None and (found.holder, found.epoch) == ("a", 1)
        assert 0 <= self.ttl * 7 // 10 - found.remaining_ms <= clock.slack_ms
        clock.wait(self.ttl)
        assert log.lease_state(self.q) == LeaseState("a", 1, 0), "it ran out"
        log.release_lease(log.renew_lease(lease))
        assert log.lease_state(self.q) == LeaseState("a", 1, 0), "it was given up"

    def test_a_renewed_lease_lasts_and_a_released_one_does_not(
        self, log: Transport, clock: Clock
    ) -> None:
        lease = log.acquire_lease(self.q, "a", self.ttl)
        clock.wait(self.ttl * 7 // 10)
        renewed = log.renew_lease(lease)
        assert renewed.expires_ms >= lease.expires_ms + self.ttl * 7 // 10
        clock.wait(self.ttl * 7 // 10)
        log.publish([], Marker(self.q, "id", 1, 1), lease)
        log.release_lease(lease)
        with pytest.raises(FencedError, match="released"):
            log.renew_lease(lease)
        assert log.acquire_lease(self.q, "b", self.ttl).epoch == 2

    def test_after_close_every_call_says_so(self, log: Transport) -> None:
        log.close()
        log.close()
        with pytest.raises(ClosedError, match="closed"):
            log.append([self.out("a")])
        with pytest.raises(ClosedError):
            log.topics()
