"""Order of broker versions, as semantic versioning has it (semver.org, rule 11).

Numbers count from left to right; a version with a suffix (4.1.0-SNAPSHOT, 4.1.0-rc.1) is below its
release; what follows a plus sign does not count; a version that cannot be read is below all others.
Called by `controller.strategies.filters`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,4})(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")
NUMBERS = 5  # compared at most: 4.1 is 4.1.0.0.0

Suffix = tuple[tuple[bool, int, str], ...]
Key = tuple[bool, tuple[int, ...], bool, Suffix]


@lru_cache(maxsize=1_000)
def version_key(version: str | None) -> Key:
    """What versions are compared by."""
    match = _VERSION.fullmatch((version or "").strip())
    if match is None:
        return False, (), False, ()
    numbers = tuple(map(int, match[1].split(".")))
    suffix = tuple(map(_part, match[2].split("."))) if match[2] else ()
    return True, numbers + (0,) * (NUMBERS - len(numbers)), not suffix, suffix


def _part(text: str) -> tuple[bool, int, str]:
    """Numbers are below words, and are compared as numbers."""
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return (not is_number, int(text), "") if is_number else (True, 0, text)
