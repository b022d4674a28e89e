"""Bundles: names, hash ranges, lookup of a topic's bundle, split arithmetic.

Rules as in Apache Pulsar: a topic's hash is the CRC-32 of its full name; a range includes its
lower bound and excludes its upper bound, except for 0xffffffff, which is included. All bounds are
unsigned 32-bit integers. The core, the strategies and the agents call this.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

FULL_LOWER = 0
FULL_UPPER = 0xFFFFFFFF
# Keeps one mistyped number from asking for 2^32 bounds; a namespace has tens to thousands.
BUNDLES_PER_NAMESPACE_MAX = 1 << 20

_RANGE = re.compile(r"0x([0-9a-f]{8})_0x([0-9a-f]{8})")
# The characters of Pulsar's NamedEntity; two parts, or three for v1 and heartbeat namespaces.
_NAMESPACE = r"[-=:.\w]+(?:/[-=:.\w]+){1,2}"
_NAME = re.compile(rf"({_NAMESPACE})/0x([0-9a-f]{{8}})_0x([0-9a-f]{{8}})", re.ASCII)
_DOMAINS = ("persistent", "non-persistent")


class BundleNameError(ValueError):
    """A text that is not the name of a bundle, a hash range or a topic."""


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """Hash range of a bundle; `ValueError` unless 0 <= lower < upper <= 0xffffffff."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not FULL_LOWER <= self.lower < self.upper <= FULL_UPPER:
            raise ValueError(f"no hash range: {self.lower:#x} to {self.upper:#x}")

    @classmethod
    def parse(cls, text: str) -> HashRange:
        """Range written as `0x%08x_0x%08x`; raises `BundleNameError`."""
        match = _RANGE.fullmatch(text)
        if match is None:
            raise BundleNameError(f"not a hash range: {text[:100]!r}")
        lower, upper = int(match[1], 16), int(match[2], 16)
        if lower >= upper:
            raise BundleNameError(f"empty hash range: {text!r}")
        return cls(lower, upper)

    @property
    def splittable(self) -> bool:
        """True if a boundary fits strictly inside."""
        return self.upper - self.lower > 1

    def contains(self, topic_hash: int) -> bool:
        """True if a topic with this hash belongs to the range."""
        is_last = topic_hash == self.upper == FULL_UPPER
        return self.lower <= topic_hash < self.upper or is_last

    def __str__(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """A hash range of one namespace: the smallest thing that is moved."""

    namespace: str
    range: HashRange

    @classmethod
    def parse(cls, name: str) -> Bundle:
        """Bundle of a name like `tenant/ns/0x00000000_0x80000000`; raises `BundleNameError`."""
        namespace, lower, upper = split_name(name)
        return cls(namespace, HashRange(lower, upper))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"


def split_name(name: str) -> tuple[str, int, int]:
    """(namespace, lower, upper) of a bundle name, without building objects.

    Only the spelling that Pulsar writes passes (lower-case hex, eight digits), so equal bundles
    have equal names. Raises `BundleNameError`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise BundleNameError(f"not a bundle name: {name[:100]!r}")
    lower, upper = int(match[2], 16), int(match[3], 16)
    if lower >= upper:
        raise BundleNameError(f"empty hash range in bundle name: {name[:100]!r}")
    return match[1], lower, upper


def topic_hash(topic: str) -> int:
    """Unsigned CRC-32 of a full topic name (with domain and partition suffix) in UTF-8."""
    return zlib.crc32(topic.encode())


def full_topic_name(topic: str) -> str:
    """Short names as Pulsar's clients complete them: `x` and `t/n/x` become persistent topics.

    Raises `BundleNameError` for other short names; full names come back unchanged.
    """
    if "://" in topic:
        return topic
    parts = topic.split("/")
    if len(parts) not in (1, 3) or not all(parts):
        raise BundleNameError(f"not a topic name: {topic[:100]!r}")
    local = topic if len(parts) == 3 else f"public/default/{topic}"
    return f"persistent://{local}"


def topic_namespace(topic: str) -> str:
    """Namespace of a full topic name, two parts or three (v1); raises `BundleNameError`."""
    domain, separator, rest = topic.partition("://")
    parts = rest.split("/", 3)
    if not separator or domain not in _DOMAINS or len(parts) < 3 or not all(parts):
        raise BundleNameError(f"not a full topic name: {topic[:100]!r}")
    return "/".join(parts[:-1])


def equal_boundaries(n: int) -> list[int]:
    """The n+1 boundaries of a namespace of n equal bundles: k * (2^32 div n), last 0xffffffff."""
    if not 1 <= n <= BUNDLES_PER_NAMESPACE_MAX:
        raise ValueError(f"{n} bundles; allowed are 1 to {BUNDLES_PER_NAMESPACE_MAX}")
    segment = (FULL_UPPER + 1) // n
    return [k * segment for k in range(n)] + [FULL_UPPER]


def bundle_index(boundaries: Sequence[int], hash: int) -> int:
    """Index of the bundle that holds a hash; `boundaries` ascending, one more than bundles.

    A hash of 0xffffffff belongs to the last bundle (Pulsar raises there, once in 2^32 topics).
    Raises `ValueError` for a hash outside the boundaries.
    """
    index = bisect_right(boundaries, hash) - 1
    last = len(boundaries) - 2
    if index == last + 1 and hash == FULL_UPPER == boundaries[-1]:
        return last
    if not 0 <= index <= last:
        raise ValueError(f"hash {hash:#x} lies outside the boundaries")
    return index


def bundles_of(namespace: str, boundaries: Sequence[int]) -> list[Bundle]:
    """The bundles between ascending boundaries, in order; `ValueError` if not ascending."""
    return [Bundle(namespace, HashRange(lower, upper)) for lower, upper in pairwise(boundaries)]


def split_range(range: HashRange, boundaries: Sequence[int]) -> list[HashRange]:
    """The children of a range cut at one or more boundaries, ascending; they cover it exactly.

    Raises `ValueError` unless every boundary lies strictly inside and none is given twice.
    """
    cuts = sorted(boundaries)
    if not cuts:
        raise ValueError(f"no boundary to split {range} at")
    for cut in cuts:
        if not range.lower < cut < range.upper:
            raise ValueError(f"boundary {cut:#x} is not strictly inside {range}")
    if len(set(cuts)) < len(cuts):
        raise ValueError(f"a boundary is given twice for {range}")
    edges = [range.lower, *cuts, range.upper]
    return [HashRange(a, b) for a, b in pairwise(edges)]
