"""Why a record was not accepted, and the dead letter that says so.

Every decoder of this room raises `WireError` and nothing else; the core turns it into a `Reject`
with `make_reject`, the sink appends that to the dead-letter topic. Texts that come from the peer
are cut, so that a dead letter is never much larger than a few kilobytes.
"""

from __future__ import annotations

import base64

import msgspec

TEXT_MAX = 1_024  # characters of a peer's text repeated in key, field or detail
PAYLOAD_MAX = 2_048  # bytes of the rejected record kept for the reader

REASONS = frozenset(
    {
        "malformed_json",
        "unknown_format",
        "missing_field",
        "wrong_type",
        "not_finite",
        "negative",
        "absurd_value",
        "bad_name",
        "key_mismatch",
        "oversized",
        "not_utf8",
        "unrouted",
        "too_many_bundles",
        "unknown_command",
        "bad_transition",
    }
)


class WireError(Exception):
    """A record cannot be accepted: reason code, field to blame (if one is), and a sentence."""

    def __init__(self, reason: str, field: str | None, detail: str) -> None:
        if reason not in REASONS:
            raise ValueError(f"not a reason code: {reason!r}")
        self.reason = reason
        self.field = None if field is None else field[:TEXT_MAX]
        self.detail = detail[:TEXT_MAX]
        super().__init__(reason, self.field, self.detail)

    def __str__(self) -> str:
        where = "" if self.field is None else f" at {self.field}"
        return f"{self.reason}{where}: {self.detail}"


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letter: where the record stood, why it was not accepted, and its beginning."""

    topic: str
    partition: int
    offset: int
    key: str | None
    ingestMs: int
    reason: str
    field: str | None
    detail: str
    payload: str  # text, or `base64:...` if it is not UTF-8; cut
    payloadBytes: int  # length of the whole record


def make_reject(
    topic: str,
    partition: int,
    offset: int,
    key: str | None,
    ingest_ms: int,
    value: bytes | None,
    error: WireError,
) -> Reject:
    """Dead letter of one record; deterministic, never fails."""
    return Reject(
        topic=topic,
        partition=partition,
        offset=offset,
        key=None if key is None else _encodable(key),
        ingestMs=ingest_ms,
        reason=error.reason,
        field=None if error.field is None else _encodable(error.field),
        detail=_encodable(error.detail),
        payload=_payload_text(value or b""),
        payloadBytes=len(value or b""),
    )


def encode_reject(reject: Reject) -> bytes:
    """JSON of a dead letter."""
    return msgspec.json.encode(reject)


def _encodable(text: str) -> str:
    """Text cut to its limit, with lone surrogates replaced: JSON cannot carry them."""
    return text[:TEXT_MAX].encode("utf-8", "replace").decode()


def _payload_text(value: bytes) -> str:
    head = value[:PAYLOAD_MAX]
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        is_cut_inside_a_character = len(value) > PAYLOAD_MAX and error.start > PAYLOAD_MAX - 4
        if is_cut_inside_a_character:
            return head[: error.start].decode()
        return "base64:" + base64.b64encode(head).decode()
