"""Commands: of operators, of agents (assignment requests), of the driver (ticks), of the sink.

JSON objects told apart by their member `command`. All may say who sent them, why, and under which
id. The core decodes them; the CLI, the agents and the driver encode them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from controller.model.bundles import FULL_UPPER, BundleNameError, split_name
from controller.wire.decoding import decode_struct
from controller.wire.limits import DEFAULT_LIMITS, WireLimits
from controller.wire.policies import PolicySet
from controller.wire.rejects import WireError

BOUNDARIES_MAX = 1_024  # of one split command; an operator names one or a handful

Hash = Annotated[int, msgspec.Meta(ge=0, le=FULL_UPPER)]
Boundaries = Annotated[list[Hash], msgspec.Meta(max_length=BOUNDARIES_MAX)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
TopicKind = Literal["persistent", "non-persistent"]
Version = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Signed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    """What every command may carry."""

    who: str | None = None
    why: str | None = None
    id: str | None = None


class Tick(_Signed, frozen=True, kw_only=True, tag="tick"):
    """Advances the log's clock; appended by the driver when a round is due."""


class Assign(_Signed, frozen=True, kw_only=True, tag="assign"):
    """Asks for an owner of an unowned bundle; `topics` says of which kind its topics are."""

    bundle: str
    requestedBy: str
    topics: TopicKind | None = None  # None = both, or not known


class Refused(_Signed, frozen=True, kw_only=True, tag="refused"):
    """The sink did not publish a decision; it comes back as input."""

    bundle: str
    versionId: Version
    decisionId: str
    reason: str


class Transfer(_Signed, frozen=True, kw_only=True, tag="transfer"):
    """Moves a bundle to a named broker."""

    bundle: str
    destination: str


class Unload(_Signed, frozen=True, kw_only=True, tag="unload"):
    """Closes a bundle on its owner; the new owner is chosen afterwards."""

    bundle: str


class SplitBundle(_Signed, frozen=True, kw_only=True, tag="split"):
    """Splits a bundle at the boundaries, or in the middle if none are given."""

    bundle: str
    boundaries: Boundaries | None = None


class Pause(_Signed, frozen=True, kw_only=True, tag="pause"):
    """Stops rounds from acting until a time (ms since 1970), or until `resume`."""

    untilMs: Millis | None = None


class Resume(_Signed, frozen=True, kw_only=True, tag="resume"):
    """Ends a pause."""


class Drain(_Signed, frozen=True, kw_only=True, tag="drain"):
    """Moves all bundles off a broker and gives it none, until `undrain`."""

    broker: str


class Undrain(_Signed, frozen=True, kw_only=True, tag="undrain"):
    """Ends a drain."""

    broker: str


class Pin(_Signed, frozen=True, kw_only=True, tag="pin"):
    """Keeps a bundle on a broker: on the named one, else on its owner at this moment.

    Only when that broker is gone, draining or leaving is it served elsewhere; it returns.
    """

    bundle: str
    broker: str | None = None


class Unpin(_Signed, frozen=True, kw_only=True, tag="unpin"):
    """Ends a pin."""

    bundle: str


class SetKey(_Signed, frozen=True, kw_only=True, tag="set"):
    """Sets a key under [balance] while the job runs, until `unset`; strategies begin afresh."""

    key: str  # as in the file: balance.avg.hit_count_low
    value: bool | int | float | str | list[str]


class UnsetKey(_Signed, frozen=True, kw_only=True, tag="unset"):
    """Gives a key the value of the configuration again."""

    key: str


class SetPolicies(_Signed, frozen=True, kw_only=True, tag="policies"):
    """Replaces all policies of the cluster; an empty set ends them."""

    policies: PolicySet


Command = (
    Tick
    | Assign
    | Refused
    | Transfer
    | Unload
    | SplitBundle
    | Drain
    | Undrain
    | Pin
    | Unpin
    | Pause
    | Resume
    | SetKey
    | UnsetKey
    | SetPolicies
)

_TEXTS = (
    "who",
    "why",
    "id",
    "bundle",
    "broker",
    "requestedBy",
    "decisionId",
    "reason",
    "destination",
    "key",
)
_NAMES = ("requestedBy", "destination", "decisionId", "broker", "key")
_DECODER: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def decode_command(value: bytes | None, limits: WireLimits = DEFAULT_LIMITS) -> Command:
    """The command; raises `WireError`. A null value is no command."""
    if value is None:
        raise WireError("unknown_command", None, "a command topic has no tombstones")
    try:
        command = decode_struct(_DECODER, value, limits)
    except WireError as error:
        if error.field == "command":
            raise WireError("unknown_command", "command", error.detail) from None
        raise
    _check_texts(command, limits)
    bundle = getattr(command, "bundle", None)
    if bundle is not None:
        try:
            split_name(bundle)
        except BundleNameError as error:
            raise WireError("bad_name", "bundle", str(error)) from None
    return command


def encode_command(command: Command) -> bytes:
    """JSON of a command; members that are None are left out."""
    return msgspec.json.encode(command)


def _check_texts(command: Command, limits: WireLimits) -> None:
    for name in _TEXTS:
        text = getattr(command, name, None)
        if text is None:
            continue
        if len(text) > limits.text_max:
            detail = f"{len(text)} characters; allowed are {limits.text_max}"
            raise WireError("absurd_value", name, detail)
        if name in _NAMES and not text.strip():
            raise WireError("bad_name", name, "must not be empty")
