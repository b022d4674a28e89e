"""Texts of broker.conf as values of the types that Pulsar's defaults have.

Rules: blanks around a text do not count; lists are parted by commas; a blank number, switch or
optional value is no value (None), as Pulsar leaves its default then. Stricter than Java, where any
text but "true" is false. Used by `controller.config.pulsar.imported`.
"""

from __future__ import annotations

import math
import re
from typing import Any

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")


class TextError(ValueError):
    """A text that is no value of its key; `remedy` says what to write."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


def value_of(text: str, default: Any) -> Any:
    """The value of a text, of the type of `default`; raises `TextError`."""
    text = text.strip()
    if isinstance(default, list):
        return [one.strip() for one in text.split(",") if one.strip()]
    if not text and not isinstance(default, str):
        return None
    if text.startswith("$"):
        raise TextError(
            "is taken from a variable of the broker's environment", "write the value itself"
        )
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        return _switch(text)
    return _whole(text) if isinstance(default, int) else _number(text)


def text_of(value: Any) -> str:
    """A value as broker.conf writes it; the reverse of `value_of`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise TextError("is neither true nor false", "write true or false")
    return text.lower() == "true"


def _whole(text: str) -> int:
    if not _INT.fullmatch(text):
        raise TextError("is no whole number", "write digits only")
    return int(text)


def _number(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise TextError("is no number", "write digits with a decimal point, without a unit")
    number = float(text.rstrip("fFdD"))
    if not math.isfinite(number):
        raise TextError("is no number that can be reckoned with", "write a smaller one")
    return number
