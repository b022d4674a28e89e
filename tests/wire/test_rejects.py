"""Dead letters: what they say, and that they can always be written."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.wire.rejects import (
    PAYLOAD_MAX,
    REASONS,
    TEXT_MAX,
    Reject,
    WireError,
    encode_reject,
    make_reject,
)


def reject_of(value: bytes | None, key: str | None = "c1/b1") -> Reject:
    error = WireError("negative", "cpu.usage", "-1 is negative")
    return make_reject("load-reports", 2, 17, key, 1_000, value, error)


def test_a_dead_letter_says_where_what_and_why() -> None:
    assert msgspec.json.decode(encode_reject(reject_of(b'{"a": 1}'))) == {
        "topic": "load-reports",
        "partition": 2,
        "offset": 17,
        "key": "c1/b1",
        "ingestMs": 1_000,
        "reason": "negative",
        "field": "cpu.usage",
        "detail": "-1 is negative",
        "payload": '{"a": 1}',
        "payloadBytes": 8,
    }


def test_a_tombstone_has_an_empty_payload() -> None:
    assert (reject_of(None).payload, reject_of(None).payloadBytes) == ("", 0)


def test_binary_payloads_are_base64() -> None:
    payload = reject_of(b"\xff\x00abc").payload
    assert base64.b64decode(payload.removeprefix("base64:")) == b"\xff\x00abc"


def test_text_cut_inside_a_character_stays_text() -> None:
    value = b"a" * (PAYLOAD_MAX - 1) + "ü".encode() * 10
    assert reject_of(value).payload == "a" * (PAYLOAD_MAX - 1)
    assert reject_of(value).payloadBytes == len(value)


@given(
    st.none() | st.binary(max_size=3_000),
    st.none() | st.text(alphabet=st.characters(), max_size=50),
    st.sampled_from(sorted(REASONS)),
    st.none() | st.text(alphabet=st.characters(), max_size=50),
    st.text(alphabet=st.characters(), max_size=3_000),
)
@settings(print_blob=True, deadline=None)
def test_any_dead_letter_can_be_written_and_is_small(
    value: bytes | None, key: str | None, reason: str, field: str | None, detail: str
) -> None:
    error = WireError(reason, field, detail)
    reject = make_reject("t", 0, 0, key, 0, value, error)
    again = msgspec.json.decode(encode_reject(reject), type=Reject)
    assert again == reject
    assert len(reject.detail) <= TEXT_MAX
    assert len(reject.payload) <= 2 * PAYLOAD_MAX
    assert reason in str(error)


def test_lone_surrogates_in_a_key_do_no_harm() -> None:
    assert reject_of(b"", key="\ud800x").key == "?x"


def test_reasons_are_a_closed_list() -> None:
    with pytest.raises(ValueError, match="not a reason code"):
        WireError("whatever", None, "x")
