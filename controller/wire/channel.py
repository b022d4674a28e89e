"""Records of the bundle-state channel: Pulsar's `ServiceUnitStateData` plus fields of ours.

Pulsar ignores the fields of ours (decisionId, reason, epoch); a null value is a tombstone. Who
wins between two records is not decided here but in `controller.channel.conflict`. The core and
the agents call this.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from controller.model.bundles import BundleNameError, HashRange
from controller.wire.decoding import decode_struct
from controller.wire.limits import DEFAULT_LIMITS, WireLimits
from controller.wire.rejects import WireError

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1  # Java's long; versions wrap from one to the other
Long = Annotated[int, msgspec.Meta(ge=LONG_MIN, le=LONG_MAX)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)]


class ServiceUnitState(enum.StrEnum):
    """States of a service unit. Init means "no record" and never stands on the wire."""

    Init = "Init"
    Free = "Free"
    Owned = "Owned"
    Assigning = "Assigning"
    Releasing = "Releasing"
    Splitting = "Splitting"
    Deleted = "Deleted"


class ServiceUnitStateData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the channel, with Pulsar's JSON names; fields that are None are left out."""

    state: ServiceUnitState
    dstBroker: str | None = None
    sourceBroker: str | None = None
    splitServiceUnitToDestBroker: dict[str, str | None] | None = None
    # A default factory, because a plain False would be left out and Pulsar always writes it.
    force: bool = msgspec.field(default_factory=bool)
    timestamp: Natural
    versionId: Long
    decisionId: str | None = None
    reason: str | None = None
    epoch: int | None = None


_DECODER = msgspec.json.Decoder(ServiceUnitStateData)


def decode_channel(
    value: bytes | None, limits: WireLimits = DEFAULT_LIMITS
) -> ServiceUnitStateData | None:
    """The record, or None for a tombstone; raises `WireError`.

    As in Pulsar's constructor one of the brokers must be named unless the state is Free. An Owned
    record without destination passes here as it does there: it takes its version, names no owner.
    A blank broker is read as none, so that all readers of ours compare alike.
    """
    if value is None:
        return None
    data = decode_struct(_DECODER, value, limits)
    if data.state is ServiceUnitState.Init:
        raise WireError("absurd_value", "state", "Init means no record; send a tombstone")
    if data.state is not ServiceUnitState.Free and not (
        has_text(data.dstBroker) or has_text(data.sourceBroker)
    ):
        detail = f"neither dstBroker nor sourceBroker is named in state {data.state.value}"
        raise WireError("missing_field", "dstBroker", detail)
    _check_texts(data, limits)
    _check_children(data, limits)
    return _without_blanks(data)


def encode_channel(data: ServiceUnitStateData) -> bytes:
    """JSON of a record, fields in Pulsar's order."""
    return msgspec.json.encode(data)


def has_text(broker: str | None) -> bool:
    """False for what Java's `StringUtils.isBlank` calls blank: null, empty or only white space."""
    return broker is not None and bool(broker.strip())


def _without_blanks(data: ServiceUnitStateData) -> ServiceUnitStateData:
    blanks = {
        name: None
        for name in ("dstBroker", "sourceBroker")
        if getattr(data, name) is not None and not has_text(getattr(data, name))
    }
    return msgspec.structs.replace(data, **blanks) if blanks else data


def _check_texts(data: ServiceUnitStateData, limits: WireLimits) -> None:
    for name in ("dstBroker", "sourceBroker", "decisionId", "reason"):
        text = getattr(data, name)
        if text is not None and len(text) > limits.text_max:
            detail = f"{len(text)} characters; allowed are {limits.text_max}"
            raise WireError("absurd_value", name, detail)


def _check_children(data: ServiceUnitStateData, limits: WireLimits) -> None:
    """Children are ranges like `0x00000000_0x80000000`, each with the broker it should go to."""
    children = data.splitServiceUnitToDestBroker or {}
    if len(children) > limits.bundles_per_report_max:
        detail = f"{len(children)} children; allowed are {limits.bundles_per_report_max}"
        raise WireError("too_many_bundles", "splitServiceUnitToDestBroker", detail)
    for child, broker in children.items():
        field = f'splitServiceUnitToDestBroker["{child[:100]}"]'
        try:
            HashRange.parse(child)
        except BundleNameError as error:
            raise WireError("bad_name", field, str(error)) from None
        if broker is not None and len(broker) > limits.text_max:
            detail = f"{len(broker)} characters; allowed are {limits.text_max}"
            raise WireError("absurd_value", field, detail)
