"""Which entries of a broker.conf count, as Pulsar would read them.

Misspelt twins count where the proper key has its default; a load manager may decide on strategies
whatever else is named. Used by `controller.config.pulsar.imported`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.config.errors import nearest
from controller.config.pulsar.classes import SHEDDERS, is_extensible, simple_name
from controller.config.pulsar.keys import ALIASES, PulsarKey
from controller.config.pulsar.properties import Entry, Properties
from controller.config.pulsar.values import TextError, value_of

MANAGER = "loadManagerClassName"
SHED = "loadBalancerLoadSheddingStrategy"
PLACE = "loadBalancerLoadPlacementStrategy"
EXTENSIBLE_STRATEGIES = {"balance.shed": "transfer", "balance.place": "least_usage_extensible"}
"""What ExtensibleLoadManagerImpl uses whatever is named; its split comes with the key itself."""

FAMILY = ("loadBalance", "loadManager")
_UNREAD = {
    SHED: "ExtensibleLoadManagerImpl cannot run it and sheds by TransferShedder",
    PLACE: "ExtensibleLoadManagerImpl has one placement of its own and does not read this",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Entries by proper key; keys that the load manager overrules, with why; and notes."""

    entries: dict[str, Entry] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    strategies: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    other_keys: int = 0


def chosen(properties: Properties, keys: Mapping[str, PulsarKey]) -> Chosen:
    """The load-balance keys of a file as Pulsar heeds them."""
    entries = {name: one for name, one in properties.entries.items() if name in keys}
    known = keys.keys() | ALIASES.keys()
    others = [one for name, one in properties.entries.items() if name not in known]
    notes = [
        f"line {one.line}: {one.key} = {one.value} is overridden by line "
        f"{properties.entries[one.key].line}"
        for one in properties.repeated
    ]
    notes += _twins(properties, keys, entries)
    notes += [
        f"line {one.line}: {one.key} is no key of Pulsar's; {nearest(one.key, keys)}"
        if _has_near(one.key, keys)
        else f"line {one.line}: {one.key} is no key of Pulsar's, and is left out"
        for one in others
        if one.key.startswith(FAMILY)
    ]
    unread, strategies = _overruled(entries)
    notes += _unfit(entries)
    return Chosen(entries, unread, strategies, notes, len(others))


def _twins(
    properties: Properties, keys: Mapping[str, PulsarKey], entries: dict[str, Entry]
) -> list[str]:
    """Puts a misspelt twin in the place of a proper key that has its default."""
    notes = []
    for twin, proper in ALIASES.items():
        entry = properties.entries.get(twin)
        if entry is None or proper not in keys:
            continue
        if _has_default(entries.get(proper), keys[proper]):
            entries[proper] = entry
            notes.append(f"line {entry.line}: {twin} is read as {proper}, which has its default")
        else:
            notes.append(
                f"line {entry.line}: {twin} does not count, because line {entries[proper].line} "
                f"sets {proper}"
            )
    return notes


def _has_default(entry: Entry | None, key: PulsarKey) -> bool:
    if entry is None:
        return True
    try:
        return value_of(entry.value, key.default) in (key.default, None)
    except TextError:
        return False


def _overruled(entries: Mapping[str, Entry]) -> tuple[dict[str, str], dict[str, str]]:
    """Keys that the extensible manager does not heed, and the strategies that it uses."""
    if MANAGER not in entries or not is_extensible(entries[MANAGER].value):
        return {}, {}
    shed = entries.get(SHED)
    is_other = shed is not None and simple_name(shed.value) in SHEDDERS.keys() - {"TransferShedder"}
    unread = {key: why for key, why in _UNREAD.items() if key == PLACE or is_other}
    return {key: why for key, why in unread.items() if key in entries}, EXTENSIBLE_STRATEGIES


def _unfit(entries: Mapping[str, Entry]) -> list[str]:
    """A shedder that the modular manager cannot run."""
    shed, manager = entries.get(SHED), entries.get(MANAGER)
    if shed is None or simple_name(shed.value) != "TransferShedder":
        return []
    if manager is not None and is_extensible(manager.value):
        return []
    return [
        f"line {shed.line}: Pulsar's ModularLoadManagerImpl cannot run TransferShedder and sheds "
        "by OverloadShedder; balance.shed is what the file names"
    ]


def _has_near(word: str, keys: Mapping[str, PulsarKey]) -> bool:
    return nearest(word, keys).startswith("did you mean")
