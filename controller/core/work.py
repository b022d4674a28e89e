"""The workbench of one `step` call: a private copy of the state, and what was made so far.

Everything in the core that changes something does it through a `Work`; it never leaves `step`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from controller.core.inputs import ChannelWrite, RawRecord
from controller.core.settings import Settings
from controller.core.state import ClusterState, bundle_name
from controller.core.state.windows import Sample, add_samples
from controller.model.bundles import split_name
from controller.strategies.view import Ints
from controller.wire.rejects import Reject, WireError, make_reject

if TYPE_CHECKING:
    from controller.core.rounds.answers import Desk


@dataclass(slots=True)
class Work:
    """State under change plus outputs of one step."""

    state: ClusterState
    settings: Settings  # in force: as configured, with what was set since
    configured: Settings
    writes: list[ChannelWrite] = field(default_factory=list)
    logged: list[bytes] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    namespace_index: dict[str, int] = field(default_factory=dict)
    namespace_slots: dict[int, Ints] = field(default_factory=dict)  # see `neighbours`
    desk: Desk | None = None  # placement in progress; None once anything changed
    is_tick: bool = False  # the record just folded says that time has passed
    is_answer_due: bool = False  # something changed that may let waiting requests be answered

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self.state.memory.cluster

    def flush(self) -> None:
        """Applies the samples gathered so far; before a round, and before a slot is freed."""
        windows = self.settings.windows
        add_samples(self.state.bundles, self.samples, windows.short_samples, windows.long_samples)
        self.samples.clear()

    def reject(self, record: RawRecord, error: WireError) -> None:
        """Sends a record to the dead letters."""
        self.state.memory.count("rejects")
        self.rejects.append(
            make_reject(
                record.topic,
                record.partition,
                record.offset,
                record.key,
                record.ingest_ms,
                record.value,
                error,
            )
        )

    def broker(self, name: str, now_ms: int) -> int:
        """Slot of a broker, given one at first sight; raises `WireError` when there are too many.

        A broker that is only named on the channel counts as seen then: its silence is measured
        from there.
        """
        brokers = self.state.brokers
        slot = brokers.slots.get(name)
        if slot is None:
            if len(brokers) >= self.settings.log.brokers_max:
                raise WireError("absurd_value", "broker", f"more than {len(brokers)} brokers")
            slot = brokers.add(name)
            brokers["first_seen_ms"][slot] = now_ms
            brokers["last_seen_ms"][slot] = now_ms
        return slot

    def bundle(self, name: str) -> int:
        """Slot of a bundle, given one at first sight; raises `WireError` for bad names."""
        bundles = self.state.bundles
        slot = bundles.slots.get(name)
        if slot is None:
            if len(bundles) >= self.settings.log.bundles_max:
                raise WireError("too_many_bundles", "bundle", f"more than {len(bundles)} bundles")
            try:
                namespace, lower, upper = split_name(name)
            except ValueError as error:
                raise WireError("bad_name", "bundle", str(error)) from error
            if bundle_name(namespace, lower, upper) != name:
                raise WireError("bad_name", "bundle", f"{name!r} is not written canonically")
            slot = bundles.add(name)
            bundles["namespace"][slot] = self._namespace(namespace)
            bundles["lower"][slot] = lower
            bundles["upper"][slot] = upper
            if self.namespace_slots:
                at = int(bundles["namespace"][slot])
                before = self.namespace_slots.get(at, np.empty(0, np.int64))
                self.namespace_slots[at] = np.append(before, slot)
        return slot

    def forget_bundle(self, name: str) -> None:
        """Frees the slot of a bundle."""
        self.state.bundles.remove(name)
        self.state.memory.topics.pop(name, None)
        self.namespace_slots.clear()

    def neighbours(self, slot: int) -> Ints:
        """Slots of all bundles of the same namespace, in no order that means anything."""
        namespaces = self.state.bundles["namespace"]
        if not self.namespace_slots:
            used = np.flatnonzero(self.state.bundles["upper"])  # a free slot has an empty range
            order = used[np.argsort(namespaces[used], kind="stable")]
            starts = np.flatnonzero(np.diff(namespaces[order])) + 1
            parts = np.split(order, starts)
            self.namespace_slots.update((int(namespaces[part[0]]), part) for part in parts)
        return self.namespace_slots[int(namespaces[slot])]

    def _namespace(self, name: str) -> int:
        if not self.namespace_index:
            self.namespace_index.update((n, i) for i, n in enumerate(self.state.namespaces))
        index = self.namespace_index.get(name)
        if index is None:
            index = self.namespace_index[name] = len(self.state.namespaces)
            self.state.namespaces.append(name)
        return index
