"""Turns a broker.conf into our TOML, and accounts for every load-balance key in it.

Rules: what the file says wins over the base, the base over Pulsar's defaults (if asked for), these
over ours. A key that cannot be taken is a `Problem` and the others are still taken; only values
that do not fit together leave no TOML. The environment has no part in it: the text must be good by
itself. Called by `bundlectl config import`.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.config.checks import problems_in
from controller.config.load import Layers, unchecked
from controller.config.pulsar.chosen import MANAGER, PLACE, SHED, Chosen, chosen
from controller.config.pulsar.keys import KEYS, PulsarKey
from controller.config.pulsar.outcome import (
    Imported,
    OtherDefault,
    Problem,
    Taken,
    WithoutMeaning,
)
from controller.config.pulsar.properties import Entry, Properties
from controller.config.pulsar.targets import is_target, named_in, range_problem, set_at, value_at
from controller.config.pulsar.values import TextError, text_of, value_of
from controller.config.sections import ClusterSection, JobConfig
from controller.config.text import as_tables, as_toml, differing

REPORT_TTL = "balance.liveness.report_ttl_ms"
REPORT_KEYS = ("agent.report_change_points", "agent.report_max_interval_ms")


def import_properties(
    properties: Properties,
    base: Mapping[str, Any] | None = None,
    *,
    has_pulsar_defaults: bool = False,
    keys: Mapping[str, PulsarKey] = KEYS,
) -> Imported:
    """The outcome for a file; `base` are the valid tables of a TOML file of ours."""
    work = _Work(properties, base or {}, keys)
    heeded = chosen(properties, keys)
    work.notes += heeded.notes
    absent = [name for name in keys if not work.take(name, heeded)]
    for name in absent:
        work.leave(name, heeded, has_pulsar_defaults)
    work.fit_report_ttl()
    toml = work.finished()
    return Imported(
        properties.source,
        toml,
        tuple(work.taken),
        tuple(work.other_defaults),
        tuple(work.without_meaning),
        tuple(work.errors),
        tuple(work.notes),
        heeded.other_keys,
    )


@dataclass
class _Work:
    """An import under way."""

    properties: Properties
    base: Mapping[str, Any]
    keys: Mapping[str, PulsarKey]
    taken: list[Taken] = field(default_factory=list)
    other_defaults: list[OtherDefault] = field(default_factory=list)
    without_meaning: list[WithoutMeaning] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: dict[str, str] = field(default_factory=dict)
    setters: dict[str, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.defaults = as_tables(JobConfig())
        self.tables: dict[str, Any] = copy.deepcopy(dict(self.base))

    def take(self, name: str, heeded: Chosen) -> bool:
        """Takes a key of the file, or says why not; False if the file has no value for it."""
        entry, key = heeded.entries.get(name), self.keys[name]
        if entry is None:
            return False
        if name in heeded.unread or not key.targets:
            self.without_meaning.append(WithoutMeaning(entry, heeded.unread.get(name, key.why)))
            return True
        try:
            value = value_of(entry.value, key.default)
            if value is None and key.default is not None:
                self.notes.append(f"line {entry.line}: {entry.key} is empty, as if left out")
                return False
            ours = self._ours(key, value, entry)
        except TextError as error:
            self._refuse(entry, str(error), error.remedy, key)
        except (ValueError, OverflowError) as error:
            self._refuse(entry, str(error), "choose one of ours", key)
        else:
            more = heeded.strategies if name == MANAGER else {}
            self._set(entry, {**ours, **more}, self._why(key, value))
        return True

    def leave(self, name: str, heeded: Chosen, has_pulsar_defaults: bool) -> None:
        """Accounts for a key that the file leaves out, where Pulsar's default is another."""
        key = self.keys[name]
        if name in (SHED, PLACE) and heeded.strategies:
            return
        here = {
            target: key.convert(key.default)
            for target in key.targets
            if is_target(target) and value_at(self.base, target) is None
        }
        here = {name: value for name, value in here.items() if value != self._default(name)}
        if not here:
            return
        if has_pulsar_defaults:
            self._set(Entry(0, name, text_of(key.default)), here, "")
            return
        ours = {target: self._default(target) for target in here}
        self.other_defaults.append(OtherDefault(name, key.default, here, ours, key.why))

    def fit_report_ttl(self) -> None:
        """Makes loads live longer than the longest silence of a broker whose load is steady.

        Twice the longest interval, as Pulsar's own: 1800 s for 15 minutes. Without it the file
        of any Pulsar would be refused. What the base says is not touched.
        """
        if not any(name in self.setters for name in REPORT_KEYS):
            return
        agent = unchecked(Layers({}, {}, self.tables), self.properties.source).agent
        longest, every = agent.report_max_interval_ms, agent.report_interval_ms
        if agent.report_change_points <= 0 or value_at(self.base, REPORT_TTL) is not None:
            return
        ttl_ms = self._default(REPORT_TTL)
        if ttl_ms > longest + every:
            return
        wanted_ms = max(2 * longest, longest + 2 * every)
        set_at(self.tables, REPORT_TTL, wanted_ms)
        self.remarks[REPORT_TTL] = "twice agent.report_max_interval_ms; a report may be lost"
        self.notes.append(
            f"{REPORT_TTL} is raised from {ttl_ms} to {wanted_ms}: agents with steady load report "
            f"every {longest} ms (agent.report_max_interval_ms) and would count as frozen between"
        )

    def finished(self) -> str | None:
        """The TOML, read back and checked; None if keys do not fit together."""
        toml = self._toml()
        config = unchecked(Layers({}, {}, tomllib.loads(toml)), self.properties.source)
        problems = problems_in(config)
        for problem in problems:
            names = named_in(problem, self.setters)
            entries = tuple(dict.fromkeys(self.setters[name] for name in names))
            ours = ", ".join(names) or "the keys that it names"
            self.errors.append(
                Problem(
                    entries,
                    problem,
                    f"change the key in a copy of {self.properties.source}, or leave it out there "
                    f"and set {ours} in the file of --base",
                )
            )
        return None if problems else toml

    def _ours(self, key: PulsarKey, value: Any, entry: Entry) -> dict[str, Any]:
        """What a value sets here; raises `TextError` if it is out of range there."""
        converted = key.convert(value)
        ours = {}
        for target in key.targets:
            if not is_target(target):
                self.notes.append(
                    f"line {entry.line}: {entry.key} also steers {target}, which this version "
                    "does not have"
                )
            elif problem := range_problem(target, converted):
                remedy = f"choose another, or leave it out and set {target} by hand"
                raise TextError(f"makes {target} = {converted!r}: {problem}", remedy)
            else:
                ours[target] = converted
        return ours

    def _set(self, entry: Entry, ours: dict[str, Any], why: str) -> None:
        for name, value in ours.items():
            set_at(self.tables, name, value)
            self.setters[name] = entry
            said = f"{entry.key} = {entry.value.strip()}"
            self.remarks[name] = said if entry.line else f"{said}, Pulsar's default"
        self.taken.append(Taken(entry, ours, why))

    def _why(self, key: PulsarKey, value: Any) -> str:
        """Why the default here is another, where the file says no more than Pulsar's default."""
        if value != key.default:
            return ""
        ours = [self._default(target) for target in key.targets if is_target(target)]
        return key.why if any(one != key.convert(value) for one in ours) else ""

    def _refuse(self, entry: Entry, problem: str, remedy: str, key: PulsarKey) -> None:
        self.errors.append(Problem((entry,), problem, remedy or ", ".join(key.targets)))

    def _default(self, name: str) -> Any:
        return value_at(self.defaults, name)

    def _toml(self) -> str:
        """Only what differs from our defaults; clusters are named as long as they are not ours."""
        tables = as_tables(unchecked(Layers({}, {}, self.tables), self.properties.source))
        found = differing(tables, self.defaults)
        if "clusters" in found:
            plain = as_tables(JobConfig(clusters={"one": ClusterSection()}))["clusters"]["one"]
            found["clusters"] = {
                name: differing(one, plain) for name, one in tables["clusters"].items()
            }
        said = f"# From {json.dumps(self.properties.source)} by bundlectl config import."
        return f"{said} What has our default is left out.\n\n{as_toml(found, self.remarks)}"
