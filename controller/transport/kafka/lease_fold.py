"""The writer lease as a fold over records of one partition. Pure.

Everybody appends, and everybody reads the same records in the same order with the brokers' times
(LogAppendTime), so all agree who has the lease; whoever appended a claim reads on to it and sees
whether it won. A record that was not valid where it stands changes nothing:

- `claim` is valid if the lease before it was free, given up or had run out, or is the claimer's
  own; its epoch must be greater.
- `renew` is valid if holder and epoch are the present ones and it was not given up; one that comes
  late, after the time but before another claim, is valid too.
- `release` is valid if holder and epoch are the present ones.

Retention removes old records. What the first record that is left follows is not known, so a claim
carries what its writer saw (epoch, end of the time): a claim that came too early says so itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec

RELEASED = 0  # as `expires_ms`


class LeaseRecord(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """One record of the lease topic, as JSON."""

    kind: Literal["claim", "renew", "release"]
    holder: str
    epoch: int
    ttl_ms: int = 0
    seen_holder: str = ""  # what a claim followed, as its writer saw it
    seen_expires_ms: int = 0


class Held(msgspec.Struct, frozen=True):
    """The lease after some record; `expires_ms` is of the brokers' time, 0 = given up."""

    holder: str
    epoch: int
    ttl_ms: int
    expires_ms: int


def folded(before: Held | None, record: LeaseRecord, at_ms: int) -> Held | None:
    """The lease after a record with its ingest time."""
    expires_ms = at_ms + record.ttl_ms
    held = Held(record.holder, record.epoch, record.ttl_ms, expires_ms)
    if record.kind == "claim":
        return held if _may_claim(before, record, at_ms) else before
    if before is None:
        return held if record.kind == "renew" else Held(record.holder, record.epoch, 0, RELEASED)
    if (before.holder, before.epoch) != (record.holder, record.epoch):
        return before
    if record.kind == "release":
        return Held(before.holder, before.epoch, before.ttl_ms, RELEASED)
    return before if before.expires_ms == RELEASED else held


def _may_claim(before: Held | None, record: LeaseRecord, at_ms: int) -> bool:
    holder = record.seen_holder if before is None else before.holder
    expires_ms = record.seen_expires_ms if before is None else before.expires_ms
    is_newer = before is None or record.epoch > before.epoch
    return is_newer and (at_ms >= expires_ms or holder in ("", record.holder))


def decoded(value: bytes | None) -> LeaseRecord | None:
    """A record, or None for what is no lease record: it changes nothing."""
    try:
        return msgspec.json.decode(value or b"", type=LeaseRecord)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def encoded(record: LeaseRecord) -> bytes:
    """The record as JSON."""
    return msgspec.json.encode(record)
