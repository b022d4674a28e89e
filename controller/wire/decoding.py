"""Turns bytes into msgspec structs, and every way to fail into a `WireError`.

The way to success is one typed, strict decode. Only after a failure is the record looked at a
second time, to say which field is to blame and why. The decoders of this room call this.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from controller.wire.limits import WireLimits
from controller.wire.rejects import WireError

T = TypeVar("T")

_AT = re.compile(r"(.*?)(?: - at `(.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_BOUND = re.compile(r"Expected `\w+` (?:[<>]=?|of length) .*")
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")


def check_bytes(value: bytes, limits: WireLimits) -> None:
    """Raises `WireError` for a record that is too long or not UTF-8; parses nothing."""
    if len(value) > limits.record_bytes_max:
        detail = f"{len(value)} bytes; allowed are {limits.record_bytes_max}"
        raise WireError("oversized", None, detail)
    if value.isascii():
        return
    try:
        value.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} is not UTF-8: {error.reason}"
        raise WireError("not_utf8", None, detail) from None


def decode_struct(decoder: msgspec.json.Decoder[T], value: bytes, limits: WireLimits) -> T:
    """The record as the decoder's type; raises only `WireError`."""
    check_bytes(value, limits)
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise blame(error) from None
    except (msgspec.DecodeError, ValueError):
        raise explain_malformed(value) from None
    except RecursionError:
        raise WireError("malformed_json", None, "nested too deep") from None


def blame(error: msgspec.ValidationError) -> WireError:
    """The `WireError` for a validation error: reason, path of the field, msgspec's sentence."""
    match = _AT.fullmatch(str(error))
    assert match is not None  # the pattern matches any text
    message, path = match[1], (match[2] or "$").removeprefix("$").removeprefix(".")
    if message == "Number out of range":
        return WireError("not_finite", path or None, "a number is too large for a double")
    missing = _MISSING.fullmatch(message)
    if missing is not None:
        path = f"{path}.{missing[1]}".removeprefix(".")
        return WireError("missing_field", path, f"required field {missing[1]} is missing")
    return WireError(_reason_of(message), path or None, message)


def _reason_of(message: str) -> str:
    if message.endswith(">= 0"):
        return "negative"
    if _BOUND.fullmatch(message) or message == "Integer value out of range":
        return "absurd_value"
    if message.startswith("Invalid enum value"):
        return "absurd_value"
    return "wrong_type"


def explain_malformed(value: bytes) -> WireError:
    """Why a record is no JSON, or which of its numbers is not finite.

    The standard library's parser is used because it reads NaN and Infinity, which Java and
    Python programs write although JSON does not have them. The record must be UTF-8.
    """
    try:
        document = json.loads(value.decode())
    except RecursionError:
        return WireError("malformed_json", None, "nested too deep")
    except ValueError as error:
        return WireError("malformed_json", None, str(error))
    path = not_finite_path(document)
    if path is None:
        return WireError("malformed_json", None, "a string holds half a surrogate pair")
    return WireError("not_finite", path or None, "JSON has no NaN, infinity or overflowing number")


def not_finite_path(document: Any) -> str | None:
    """Path of the first number that is not finite, in document order; None if there is none."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, float) and not math.isfinite(node):
            return path
        if isinstance(node, dict):
            children = [(join_key(path, key), child) for key, child in node.items()]
        elif isinstance(node, list):
            children = [(f"{path}[{at}]", child) for at, child in enumerate(node)]
        else:
            continue
        waiting.extend(reversed(children))
    return None


def join_key(path: str, key: str) -> str:
    """Path of a member: `a.b` for plain keys, `a["t/n/0x.._0x.."]` for others."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f'{path}["{key}"]'
