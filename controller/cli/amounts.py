"""Reads what people write: durations, points in time, hash boundaries. Raises `BadParameter`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import typer

from controller.model.bundles import Bundle, BundleNameError, HashRange, split_range

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:\d+(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")
_LOOSE_NAME = re.compile(r"(.+)/0[xX]([0-9a-fA-F]{1,8})_0[xX]([0-9a-fA-F]{1,8})")


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `10m`, `1h30m`, `500ms`."""
    if _DURATION.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is no duration: write 90s, 10m or 1h30m")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of an ISO time, UTC unless it says otherwise; must be to come."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no ISO time: write 2026-11-21T22:00 (UTC) or 2026-11-21T22:00+01:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at_ms = int(moment.timestamp() * 1_000)
    if at_ms <= now_ms:
        raise typer.BadParameter(f"{moment.isoformat()} is past")
    return at_ms


def bundle_of(text: str) -> Bundle:
    """The bundle of a name in the one spelling that the channel knows."""
    try:
        return Bundle.parse(text)
    except BundleNameError as error:
        raise typer.BadParameter(f"{error}; {_spelling(text)}") from error


def boundaries_in(range_: HashRange, texts: list[str]) -> list[int] | None:
    """Boundaries written as 0x… or decimal, ascending, strictly inside the range; [] is None."""
    if not texts:
        return None
    try:
        cuts = sorted(int(text, 16 if text[:2].lower() == "0x" else 10) for text in texts)
        split_range(range_, cuts)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: boundaries lie strictly inside {range_}") from error
    return cuts


def _spelling(text: str) -> str:
    """A hint: the same bundle as it is spelt, if it can be guessed."""
    match = _LOOSE_NAME.fullmatch(text)
    if match is not None:
        spelt = f"{match[1]}/0x{int(match[2], 16):08x}_0x{int(match[3], 16):08x}"
        try:
            return f"did you mean {Bundle.parse(spelt)}?"
        except BundleNameError:
            pass
    return "write tenant/namespace/0x00000000_0x80000000"
