"""Channel records: what is written, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.wire.channel import (
    LONG_MAX,
    LONG_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    encode_channel,
)
from controller.wire.rejects import REASONS, WireError

RANGE = "0x00000000_0x40000000"
OWNED = {"state": "Owned", "dstBroker": "b1", "force": False, "timestamp": 5, "versionId": 2}

data_records = st.builds(
    ServiceUnitStateData,
    state=st.sampled_from([s for s in ServiceUnitState if s is not ServiceUnitState.Init]),
    dstBroker=st.sampled_from(["b1", "b2"]),
    sourceBroker=st.none() | st.sampled_from(["b1", "b2"]),
    splitServiceUnitToDestBroker=st.none()
    | st.dictionaries(st.just(RANGE), st.none() | st.just("b3")),
    force=st.booleans(),
    timestamp=st.integers(0, LONG_MAX),
    versionId=st.integers(LONG_MIN, LONG_MAX),
    decisionId=st.none() | st.text(max_size=20),
    reason=st.none() | st.text(max_size=20),
    epoch=st.none() | st.integers(0, 2**40),
)


@given(data_records)
@settings(print_blob=True, deadline=None)
def test_records_survive_a_round_trip(record: ServiceUnitStateData) -> None:
    assert decode_channel(encode_channel(record)) == record


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_broker_is_none(blank: str) -> None:
    value = json.dumps({**OWNED, "sourceBroker": blank}).encode()
    assert decode_channel(value) == decode_channel(json.dumps(OWNED).encode())


def test_optional_members_are_left_out_but_force_is_written() -> None:
    record = ServiceUnitStateData(
        state=ServiceUnitState.Owned, dstBroker="b1", timestamp=5, versionId=2
    )
    assert json.loads(encode_channel(record)) == OWNED


def test_tombstones_and_free_without_brokers() -> None:
    assert decode_channel(None) is None
    free = decode_channel(b'{"state": "Free", "timestamp": 1, "versionId": 3}')
    assert free is not None
    assert (free.dstBroker, free.force) == (None, False)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"state": "Init"}, ("absurd_value", "state")),
        ({"state": "Lost"}, ("absurd_value", "state")),
        ({"state": 1}, ("wrong_type", "state")),
        ({"dstBroker": " "}, ("missing_field", "dstBroker")),
        ({"dstBroker": None}, ("missing_field", "dstBroker")),
        ({"dstBroker": "b" * 2000}, ("absurd_value", "dstBroker")),
        ({"versionId": 2**63}, ("absurd_value", "versionId")),
        ({"versionId": 1.5}, ("wrong_type", "versionId")),
        ({"timestamp": -1}, ("negative", "timestamp")),
        ({"force": None}, ("wrong_type", "force")),
        ({"splitServiceUnitToDestBroker": {"left": None}},
         ("bad_name", 'splitServiceUnitToDestBroker["left"]')),
        ({"splitServiceUnitToDestBroker": {RANGE: "b" * 2000}},
         ("absurd_value", f'splitServiceUnitToDestBroker["{RANGE}"]')),
    ],
)  # fmt: skip
def test_every_reason_to_reject(change: dict[str, Any], expected: tuple[str, str]) -> None:
    with pytest.raises(WireError) as caught:
        decode_channel(json.dumps({**OWNED, **change}).encode())
    assert (caught.value.reason, caught.value.field) == expected


@given(st.data())
@settings(print_blob=True, deadline=None)
def test_bent_bytes_give_a_record_or_a_wire_error(data: st.DataObject) -> None:
    value = json.dumps({**OWNED, "splitServiceUnitToDestBroker": {RANGE: "b2"}}).encode()
    at = data.draw(st.integers(0, len(value) - 1))
    value = value[:at] + data.draw(st.binary(max_size=4)) + value[at + 1 :]
    try:
        decode_channel(value)
    except WireError as error:
        assert error.reason in REASONS
        assert error.detail
