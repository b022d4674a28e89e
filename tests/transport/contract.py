"""What every transport must do; a subclass gives `open_log`, a factory that takes a clock."""

from __future__ import annotations

from collections.abc import Callable

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
    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def out(key: str | None, value: bytes | None = b"v", topic: str = "t") -> OutRecord:
    return OutRecord(topic, key, value)


class TransportContract:
    @pytest.fixture
    def open_log(self) -> OpenLog:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def log(self, open_log: OpenLog, clock: Clock) -> Transport:
        log = open_log(clock)
        log.create_topic("t", 4)
        log.create_topic("one", 1, "compact")
        return log

    def read_all(self, log: Transport, topic: str = "t") -> list[bytes | None]:
        parts = range(log.topics()[topic])
        return [r.value for part in parts for r in log.read(topic, part, 0, 10_000)]

    def test_offsets_have_no_gap_and_equal_keys_keep_their_order(self, log: Transport) -> None:
        places = log.append([out(f"k{i % 7}", b"%d" % i) for i in range(100)])
        for part, end in log.end_offsets("t").items():
            read = log.read("t", part, 0, 1_000)
            assert [r.offset for r in read] == list(range(end))
            assert [int(r.value or b"") for r in read] == [
                i for i, place in enumerate(places) if place[0] == part
            ]
        assert len({partition for partition, _ in places}) > 1

    def test_gives_back_keys_tombstones_and_headers(self, log: Transport) -> None:
        headers = (("a", b"\x00\xff"), ("a", b""))
        log.append([OutRecord("one", "clé", None, headers), OutRecord("one", None, b"")])
        first, second = log.read("one", 0, 0, 10)
        assert (first.key, first.value, first.headers) == ("clé", None, headers)
        assert (second.key, second.value, second.headers) == (None, b"", ())

    def test_read_starts_and_ends_where_it_is_told(self, log: Transport) -> None:
        log.append([out(None, b"%d" % i, "one") for i in range(10)])
        assert [r.offset for r in log.read("one", 0, 4, 3)] == [4, 5, 6]
        assert log.read("one", 0, 10, 3) == []

    def test_ingest_time_never_goes_back(self, log: Transport, clock: Clock) -> None:
        for now_ms in (5_000, 4_000, 6_000):
            clock.now_ms = now_ms
            log.append([out(None, topic="one")])
        assert [r.ingest_ms for r in log.read("one", 0, 0, 9)] == [5_000, 5_000, 6_000]

    def test_a_batch_with_an_unknown_topic_writes_nothing(self, log: Transport) -> None:
        with pytest.raises(UnknownTopicError, match="missing"):
            log.append([out("a"), out("a", topic="missing")])
        assert self.read_all(log) == []

    def test_a_topic_again_is_fine_but_not_with_other_partitions(self, log: Transport) -> None:
        log.create_topic("t", 4)
        with pytest.raises(TransportError, match="4 partitions, not 5"):
            log.create_topic("t", 5)
        assert log.topics() == {"one": 1, "t": 4}

    def test_publish_writes_records_and_marker(self, log: Transport) -> None:
        lease = log.acquire_lease("q", "a", 100)
        marker = Marker("q", "id", 7, lease.epoch)
        log.publish([out("a")], marker, lease)
        assert (self.read_all(log), log.marker("q"), log.marker("x")) == ([b"v"], marker, None)

    @pytest.mark.parametrize("how", ["expired", "stolen", "older epoch", "released"])
    def test_fenced_publish_writes_nothing(self, log: Transport, clock: Clock, how: str) -> None:
        lease = log.acquire_lease("q", "a", 100)
        if how in ("expired", "stolen"):
            clock.now_ms += 100
        if how == "stolen":
            log.acquire_lease("q", "b", 100)
        if how == "older epoch":
            log.acquire_lease("q", "a", 100)
        if how == "released":
            log.release_lease(lease)
        with pytest.raises(FencedError):
            log.publish([out("a")], Marker("q", "id", 1, lease.epoch), lease)
        assert (self.read_all(log), log.marker("q")) == ([], None)

    def test_a_held_lease_names_its_holder_and_the_time_left(
        self, log: Transport, clock: Clock
    ) -> None:
        first = log.acquire_lease("q", "host:1", 100)
        clock.now_ms += 40
        with pytest.raises(LeaseHeldError, match=r"q is held by host:1 for another 60 ms"):
            log.acquire_lease("q", "host:2", 100)
        clock.now_ms += 60
        assert log.acquire_lease("q", "host:2", 100).epoch == first.epoch + 1
        with pytest.raises(FencedError, match="host:2"):
            log.renew_lease(first)

    def test_anybody_can_see_who_has_a_lease(self, log: Transport, clock: Clock) -> None:
        assert log.lease_state("q") is None
        lease = log.acquire_lease("q", "a", 100)
        clock.now_ms += 30
        assert log.lease_state("q") == LeaseState("a", 1, 70)
        clock.now_ms += 500
        assert log.lease_state("q") == LeaseState("a", 1, 0), "it ran out"
        log.release_lease(log.renew_lease(lease))
        assert log.lease_state("q") == LeaseState("a", 1, 0), "it was given up"

    def test_a_renewed_lease_lasts_and_a_released_one_does_not(
        self, log: Transport, clock: Clock
    ) -> None:
        lease = log.acquire_lease("q", "a", 100)
        clock.now_ms += 90
        assert log.renew_lease(lease).expires_ms == clock.now_ms + 100
        clock.now_ms += 90
        log.publish([], Marker("q", "id", 1, 1), lease)
        log.release_lease(lease)
        with pytest.raises(FencedError, match="released"):
            log.renew_lease(lease)
        assert log.acquire_lease("q", "b", 100).epoch == 2

    def test_a_clock_that_goes_back_fences_nobody(self, log: Transport, clock: Clock) -> None:
        log.append([out("a")])
        clock.now_ms -= 500
        lease = log.acquire_lease("q", "a", 100)
        log.publish([out("a")], Marker("q", "id", 1, lease.epoch), lease)

    def test_after_close_every_call_says_so(self, log: Transport) -> None:
        log.close()
        log.close()
        with pytest.raises(ClosedError, match="closed"):
            log.append([out("a")])
        with pytest.raises(ClosedError):
            log.topics()
