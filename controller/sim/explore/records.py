"""Channel records and signs of life as small values that can be compared, hashed and printed.

What nobody decides by is left out (timestamps, the writer's reason). Bytes are made and read by
the production codecs, so that what the explored code sees is what stands on a real channel.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from controller.agent.events import ChannelRecord
from controller.sim.explore.times import CLUSTER
from controller.wire.channel import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_channel,
    encode_channel,
)
from controller.wire.reports import LoadReport, ResourceUsage, encode_load_report

NOTHING = ResourceUsage(0.0, 100.0)


class Rec(NamedTuple):
    """One channel record; `state` empty = tombstone."""

    key: str
    version: int
    state: str
    dst: str | None = None
    src: str | None = None
    force: bool = False
    children: tuple[str, ...] = ()
    decision: str | None = None


class Aged(NamedTuple):
    """A record on the channel: how many units of time ago it was appended, and whether it won."""

    rec: Rec
    age: int
    has_won: bool


class Sign(NamedTuple):
    """A sign of life."""

    broker: str
    status: str
    transport: str
    age: int = 0


def of_data(key: str, data: ServiceUnitStateData | None) -> Rec:
    """A record as the agents and the core make it."""
    if data is None:
        return Rec(key, 0, "")
    return Rec(
        key,
        data.versionId,
        data.state.value,
        data.dstBroker,
        data.sourceBroker,
        data.force,
        tuple(sorted(data.splitServiceUnitToDestBroker or {})),
        data.decisionId,
    )


def of_bytes(key: str, value: bytes | None) -> Rec:
    """A record as it stands on the channel."""
    return of_data(key, decode_channel(value))


@cache
def to_bytes(rec: Rec) -> bytes | None:
    """The record's value on the channel."""
    if not rec.state:
        return None
    return encode_channel(
        ServiceUnitStateData(
            state=ServiceUnitState(rec.state),
            dstBroker=rec.dst,
            sourceBroker=rec.src,
            splitServiceUnitToDestBroker=dict.fromkeys(rec.children) if rec.children else None,
            force=rec.force,
            timestamp=0,
            versionId=rec.version,
            decisionId=rec.decision,
        )
    )


@cache
def to_event(rec: Rec) -> ChannelRecord:
    """The record as a poll of an agent brings it."""
    return ChannelRecord(rec.key, to_bytes(rec), 0)


@cache
def report_of(broker: str, status: str, transport: str) -> bytes:
    """A load report of an idle broker; its number is 0, which the core takes for any."""
    return encode_load_report(
        LoadReport(
            cluster=CLUSTER,
            broker=broker,
            sequence=0,
            timestamp=0,
            full=True,
            cpu=NOTHING,
            memory=NOTHING,
            directMemory=NOTHING,
            bandwidthIn=NOTHING,
            bandwidthOut=NOTHING,
            bundles={},
            status=status,  # type: ignore[arg-type]
            transport=transport,  # type: ignore[arg-type]
        )
    )


def text(rec: Rec) -> str:
    """The record for the reader of a trace."""
    name = rec.key.rpartition("/")[2]
    if not rec.state:
        return f"{name} tombstone"
    brokers = f"src={rec.src or '-'} dst={rec.dst or '-'}"
    return f"{name} v{rec.version} {rec.state} {brokers}{' forced' if rec.force else ''}"
