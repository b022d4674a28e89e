"""The transport contract on a real broker; time really passes there."""

from __future__ import annotations

import time

import pytest

from controller.transport.errors import OffsetOutOfRangeError
from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.port import Marker, OutRecord
from tests.transport.contract import Clock, OpenLog, TransportContract

pytestmark = pytest.mark.kafka


class RealClock(Clock):
    slack_ms = 600

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1_000)


class TestKafka(TransportContract):
    ttl = 1_500
    seen_s = 5.0

    @pytest.fixture(autouse=True)
    def names(self, unique: str) -> None:
        self.t, self.one, self.q = f"t-{unique}", f"one-{unique}", f"q-{unique}"

    @pytest.fixture
    def clock(self) -> Clock:
        return RealClock()

    @pytest.fixture
    def open_log(self, settings: KafkaSettings) -> OpenLog:
        return lambda clock: KafkaLog(settings, clock=clock)

    def test_a_record_that_retention_removed_is_missed_aloud(self, log: KafkaLog) -> None:
        log.append([OutRecord(self.one, "k", b"%d" % i) for i in range(5)])
        with pytest.raises(OffsetOutOfRangeError, match="ends at offset 5, but 6"):
            log.read(self.one, 0, 6, 1)

    def test_offsets_have_gaps_where_transactions_end(
        self, log: KafkaLog, settings: KafkaSettings
    ) -> None:
        lease = log.acquire_lease(self.q, "a", 60_000)
        log.publish([self.out("a")], Marker(self.q, "id", 1, lease.epoch), lease)
        log.publish([self.out("a", b"w")], Marker(self.q, "id", 2, lease.epoch), lease)
        other = KafkaLog(settings)
        self.await_all(other, [b"v", b"w"])
        places = [r.offset for part in range(4) for r in other.read(self.t, part, 0, 9)]
        assert places == [0, 2], "the transaction's own marker has an offset too"
        other.close()
