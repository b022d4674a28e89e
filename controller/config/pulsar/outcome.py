"""What an import of Pulsar's configuration found; made by `imported`, shown by the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.config.pulsar.properties import Entry


@dataclass(frozen=True, slots=True)
class Taken:
    """A key of the file and what it sets here, by dotted name.

    `why` says why the default here is another, where the file only repeats Pulsar's.
    """

    entry: Entry
    ours: Mapping[str, Any]
    why: str = ""


@dataclass(frozen=True, slots=True)
class OtherDefault:
    """A key that the file leaves out, where Pulsar's default is not what holds here."""

    key: str
    pulsar: Any  # in Pulsar's units
    pulsar_here: Mapping[str, Any]  # the same by dotted name, in our units
    ours: Mapping[str, Any]
    why: str


@dataclass(frozen=True, slots=True)
class WithoutMeaning:
    """A key of the file that steers nothing here, and why."""

    entry: Entry
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be taken: the keys that are involved, the problem, and the remedy."""

    entries: tuple[Entry, ...]
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The whole outcome. `toml` is None if the values do not fit together."""

    source: str
    toml: str | None
    taken: tuple[Taken, ...]
    other_defaults: tuple[OtherDefault, ...]
    without_meaning: tuple[WithoutMeaning, ...]
    errors: tuple[Problem, ...]
    notes: tuple[str, ...]  # repeated keys, adjustments, and whatever else is worth a look
    other_keys: int  # keys of the file that have nothing to do with load balancing
