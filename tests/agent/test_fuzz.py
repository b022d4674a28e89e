"""Whatever stands in the channel, the core goes on: nothing raises, every record is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from controller.agent.core import handle
from controller.agent.events import (
    Acquire,
    Acquired,
    ChannelRecord,
    Closed,
    Event,
    Heard,
    LeaseLost,
    Leave,
    Polled,
    Publish,
    Release,
    Released,
    Split,
    SplitDone,
    Timer,
    TransportFailed,
)
from controller.agent.state import AgentSettings, new_state
from controller.channel.conflict import next_version
from controller.model.boundaries import range_midpoint
from controller.model.bundles import split_name
from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    encode_channel,
)
from tests.agent.builders import data

RECORDS = 100_000
BROKERS = ("b1", "b2", "", "  ", None, "b1 ")
STATES = [state for state in ServiceUnitState if state != ServiceUnitState.Init]
EDGES = [0, 1 << 29, 1 << 30, 3 << 29, 1 << 31, 3 << 30, 0xFFFFFFFF]
SETTINGS = AgentSettings(lease_ms=500, unheard_poll_ms=100, heard_settle_ms=200, retry_ms=20)
UNREADABLE = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"state":"Init"}',
    b'{"state":"Owned","timestamp":1,"versionId":1}',
    b'{"state":"Owned","dstBroker":"b1","timestamp":-1,"versionId":1}',
    b'{"state":"Owned","dstBroker":"b1","timestamp":1,"versionId":9223372036854775808}',
    b'{"state":"Owned","dstBroker":"b1","timestamp":1,"versionId":NaN}',
    b'{"state":"Splitting","sourceBroker":"b1","timestamp":1,"versionId":1,'
    b'"splitServiceUnitToDestBroker":{"nonsense":null}}',
    b"[" * 5_000,
)
STRANGE_KEYS = ("", "/", "t/ns/0x0_0x1", "t/ns/0x80000000_0x00000000", "\udcff", "a" * 5_000)


def _span(chance: random.Random) -> str:
    lower, upper = sorted(chance.sample(EDGES, 2))
    return f"0x{lower:08x}_0x{upper:08x}"


def _order(
    chance: random.Random, key: str, now: ServiceUnitStateData, offset: int
) -> ChannelRecord:
    """A record that the rules accept: something to obey."""
    version, owner = next_version(now), now.dstBroker
    if now.state != ServiceUnitState.Owned or owner is None:
        record = data("Owned", version, "b1", force=True)
    elif chance.random() < 0.5:
        record = data("Releasing", version, chance.choice((None, "b3")), owner)
    else:
        _, lower, upper = split_name(key)
        middle = range_midpoint(lower, upper)
        spans = {f"0x{a:08x}_0x{b:08x}": None for a, b in ((lower, middle), (middle, upper))}
        record = data("Splitting", version, None, owner, children=spans)
    return ChannelRecord(key, encode_channel(record), offset)


def _record(
    chance: random.Random,
    table: Mapping[str, ServiceUnitStateData],
    versions: dict[str, int],
    offset: int,
) -> ChannelRecord:
    """Mostly a plausible next record; also skips, wraps, stale ones, tombstones and nonsense."""
    key = f"t/{chance.choice(('n', 'm'))}/{_span(chance)}"
    kind = chance.random()
    if kind < 0.03:
        return ChannelRecord(chance.choice(STRANGE_KEYS), b"{}", offset)
    if kind < 0.10:
        return ChannelRecord(key, chance.choice(UNREADABLE), offset)
    if kind < 0.14:
        return ChannelRecord(key, None, offset)
    if kind < 0.5 and key in table:
        return _order(chance, key, table[key], offset)
    if key in table:
        versions[key] = table[key].versionId
    version = versions.get(key, 0) + chance.choice((1, 1, 1, 1, 1, 1, 0, -1, 2, 7))
    if chance.random() < 0.002:
        version = chance.choice((LONG_MAX, LONG_MIN, LONG_MAX - 1))
    version = max(LONG_MIN, min(version, LONG_MAX))
    versions[key] = version
    spans = {_span(chance): None for _ in range(chance.randint(0, 4))}
    record = data(
        chance.choice(STATES).value,
        version,
        chance.choice(BROKERS),
        chance.choice(BROKERS),
        force=chance.random() < 0.2,
        children=spans if chance.random() < 0.5 else None,
    )
    return ChannelRecord(key, encode_channel(record), offset)


def _answers(chance: random.Random, actions: tuple[object, ...]) -> Iterator[Event]:
    """What a broker may answer: success, failure, a lost answer, or one that nobody asked for."""
    error = chance.choice((None, None, "no"))
    for action in actions:
        match action:
            case Acquire(bundle):
                yield Acquired(bundle, error)
            case Release(bundle):
                yield Released(bundle, error)
            case Split(bundle):
                yield SplitDone(bundle, error, chance.random() < 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_no_record_and_no_answer_makes_the_core_raise(seed: int) -> None:
    chance = random.Random(seed)
    state, versions = new_state("c", "b1"), dict[str, int]()
    now_ms, fed, waiting = 0, 0, list[Event]()
    written = Counter[str]()
    while fed < RECORDS // 4:
        now_ms += chance.choice((0, 1, 10, 50, 90)) if chance.random() < 0.99 else 700
        size = chance.randint(0, 20)
        batch = tuple(_record(chance, state.table, versions, fed + at) for at in range(size))
        fed += size
        events: list[Event] = [Polled(batch, now_ms, chance.random() < 0.8)]
        if chance.random() < 0.05:
            events.append(chance.choice((LeaseLost(), Leave(), TransportFailed(), Timer())))
        if chance.random() < 0.5:
            events.append(Heard(now_ms))
        events += [waiting.pop(chance.randrange(len(waiting))) for _ in range(len(waiting) // 2)]
        for event in events:
            state, actions = handle(state, event, now_ms, SETTINGS)
            waiting += _answers(chance, actions)
            written.update(type(action).__name__ for action in actions)
            for action in actions:
                if isinstance(action, Publish):
                    encode_channel(action.record)
    counts = state.counts
    assert counts.accepted + counts.losing + counts.unreadable == fed
    explained = {"bad_children", "split_given_up"}
    reasons = {name: n for name, n in counts.reasons.items() if name not in explained}
    assert sum(reasons.values()) == counts.losing + counts.unreadable
    assert counts.losing > 1_000 and counts.unreadable > 1_000 and counts.accepted > 1_000
    assert {"Publish", "Acquire", "Release", "Drop", "Split", "Fence", "Unfence"} <= set(written)
    assert handle(state, Closed(), now_ms, SETTINGS)[0].status == "gone"


def test_the_reasons_are_named() -> None:
    state = new_state("c", "b1")
    for value in UNREADABLE:
        state, _ = handle(state, Polled((ChannelRecord("t/n/x", value, 0),), 0), 0, SETTINGS)
    key = "t/n/0x00000000_0x80000000"
    for value in (*UNREADABLE, encode_channel(data("Owned", 2, "b2"))):
        state, _ = handle(state, Polled((ChannelRecord(key, value, 0),), 0), 0, SETTINGS)
    losers = [data("Owned", 2, "b3"), data("Deleted", 3, "b2"), data("Releasing", 3, "b3", "b1")]
    for record in losers:
        row = ChannelRecord(key, encode_channel(record), 0)
        state, _ = handle(state, Polled((row,), 0), 0, SETTINGS)
    assert state.counts.reasons["bad_name"] >= len(UNREADABLE)
    assert {
        "stale_version",
        "bad_transition",
        "broker_mismatch",
        "malformed_json",
        "missing_field",
        "absurd_value",
    } <= set(state.counts.reasons)
