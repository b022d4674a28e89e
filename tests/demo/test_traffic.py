"""What the observer reads from topics: the fold of the channel, the decision log, own logs."""

from __future__ import annotations

from pathlib import Path

from controller.demo.tail import OwnLogTail
from controller.demo.traffic import ChannelFold, DecisionFold, TopicTail
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import LogRecord, OutRecord
from controller.wire.channel import ServiceUnitStateData, encode_channel
from tests.agent.builders import CHILDREN, HIGH, LOW, PARENT, data


def record(key: str | None, value: bytes | None) -> LogRecord:
    return LogRecord(0, "t", 0, 0, key, value, (), 0)


def channel(*rows: tuple[str, ServiceUnitStateData | bytes | None]) -> ChannelFold:
    fold = ChannelFold()
    fold.feed(
        record(key, encode_channel(v) if isinstance(v, ServiceUnitStateData) else v)
        for key, v in rows
    )
    return fold


def test_only_records_that_won_are_counted_by_kind() -> None:
    fold = channel(
        (LOW, data("Assigning", 1, "b1")),
        (LOW, data("Owned", 2, "b1")),
        (LOW, data("Owned", 2, "b2")),
        (LOW, data("Releasing", 3, "b2", "b1")),
        (LOW, data("Assigning", 4, "b2", "b1")),
        (LOW, b"{"),
    )
    assert (fold.assignments, fold.transfers, fold.losing) == (1, 1, 2)
    assert [name for name, _ in fold.in_flight()] == [LOW]
    assert fold.owned() == {}


def test_unloads_splits_and_overrides_are_counted_apart() -> None:
    fold = channel(
        (PARENT, data("Owned", 1, "b1")),
        (PARENT, data("Splitting", 2, None, "b1", children=CHILDREN)),
        (HIGH, data("Owned", 1, "b1")),
        (HIGH, data("Releasing", 2, None, "b1")),
        (LOW, data("Owned", 1, "b2", force=True)),
    )
    assert (fold.splits, fold.unloads, fold.overrides, fold.transfers) == (1, 1, 1, 0)


def test_a_bundle_is_unowned_when_it_was_never_seen_or_is_free() -> None:
    fold = channel(
        (PARENT, data("Deleted", 3, None, "b1")),
        (PARENT, None),
        (LOW, data("Free", 1, None, "b1")),
    )
    assert fold.unowned([PARENT, HIGH]) == sorted([LOW, HIGH])


def test_decisions_and_rounds_are_read_leniently() -> None:
    fold = DecisionFold()
    fold.feed(
        [
            record(None, b"not json"),
            record(None, b"[1]"),
            record(None, None),
            record(
                None,
                b'{"type":"round","round":7,"mode":"act","plan":{"decisions":[{"kind":"transfer",'
                b'"bundle":"t/n/x","from":"b1","to":"b2","reason":"overloaded","more":1}]},'
                b'"verdicts":{"counts":{"balanced":3}}}',
            ),
            record(None, b'{"type":"answer","round":7,"plan":{"decisions":[{"kind":"assign"}]}}'),
        ]
    )
    assert fold.rounds == 1
    assert [(d.kind, d.source, d.destination, d.round) for d in fold.last] == [
        ("transfer", "b1", "b2", 7),
        ("assign", "", "", 7),
    ]
    assert fold.refusals == {"balanced": 3}


def test_a_topic_is_followed_over_all_its_partitions(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log.db")
    log.create_topic("t", 3)
    tail = TopicTail(log, "t")
    log.append([OutRecord("t", f"k{i}", b"v") for i in range(10)])
    assert sorted(r.key or "" for r in tail.new_records()) == sorted(f"k{i}" for i in range(10))
    assert tail.new_records() == []
    log.append([OutRecord("t", "later", b"v")])
    assert [r.key for r in tail.new_records()] == ["later"]
    log.close()


def test_own_logs_are_read_as_they_grow_and_half_lines_wait(tmp_path: Path) -> None:
    tail = OwnLogTail(tmp_path)
    assert tail.new_lines() == []
    first, second = (
        b'{"ms":1.0,"broker":"b1","event":"start"}\n',
        b'{"ms":2.0,"broker":"b1","event":"exit"}\n',
    )
    (tmp_path / "b1.jsonl").write_bytes(first + second[:10])
    assert [line.event for line in tail.new_lines()] == ["start"]
    (tmp_path / "b1.jsonl").write_bytes(first + second)
    (tmp_path / "b2.jsonl").write_bytes(b'garbage\n{"ms":3.0,"broker":"b2","event":"fence"}\n')
    assert [(line.broker, line.event) for line in tail.new_lines()] == [
        ("b1", "exit"),
        ("b2", "fence"),
    ]
