"""One turn of the agent core: a working copy of the state, the rules, and the actions so far.

The working copy is private to one call of `core.handle`; the state that came in is not changed.
`reconcile` holds the protocol of the channel (pulsar.md 6.5 and 6.6): what a broker does about
the record that now stands for a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.agent.events import (
    Acquire,
    Action,
    ChannelRecord,
    Publish,
    Release,
    Split,
)
from controller.agent.state import AgentSettings, AgentState, Phase
from controller.channel.conflict import keep_old, next_version
from controller.channel.states import ACTIVE
from controller.model.bundles import BundleNameError, split_name
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, decode_channel
from controller.wire.rejects import WireError

IDLE_PHASES = (None, Phase.SERVING)
"""Phases in which no operation of the broker is running for the bundle."""


class Turn:
    """Working copy of an `AgentState` for one event."""

    def __init__(self, state: AgentState, now_ms: int, settings: AgentSettings) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.broker = state.broker
        self.table: dict[str, ServiceUnitStateData] = dict(state.table)
        self.phases: dict[str, Phase] = dict(state.phases)
        self.published: dict[str, int] = dict(state.published)
        self.wait_until_ms: dict[str, int] = dict(state.wait_until_ms)
        self.grace_until_ms: dict[str, int] = dict(state.grace_until_ms)
        self.splits: dict[str, tuple[str, ...]] = dict(state.splits)
        self.polled_ms = state.polled_ms
        self.is_caught_up = state.is_caught_up
        self.is_fenced = state.is_fenced
        self.heartbeat_due_ms = state.heartbeat_due_ms
        self.report_due_ms = state.report_due_ms
        self.sequence = state.sequence
        self._before = state
        self._counts = state.counts
        self._touched: set[str] = set()
        self._actions: list[Action] = []

    def finish(self) -> tuple[AgentState, tuple[Action, ...]]:
        """The new state and the actions, in the order in which they must be carried out."""
        state = replace(
            self._before,
            table=self.table,
            phases=self.phases,
            published=self.published,
            wait_until_ms=self.wait_until_ms,
            grace_until_ms=self.grace_until_ms,
            splits=self.splits,
            polled_ms=self.polled_ms,
            is_caught_up=self.is_caught_up,
            is_fenced=self.is_fenced,
            heartbeat_due_ms=self.heartbeat_due_ms,
            report_due_ms=self.report_due_ms,
            sequence=self.sequence,
            counts=self._counts,
        )
        return state, tuple(self._actions)

    def act(self, action: Action) -> None:
        """Adds an action."""
        self._actions.append(action)

    def count(self, **more: int) -> None:
        """Adds to the named totals."""
        totals = {name: getattr(self._counts, name) + n for name, n in more.items()}
        self._counts = replace(self._counts, **totals)

    def touch(self, bundles: Iterable[str]) -> None:
        """Marks bundles that `reconcile` has to look at."""
        self._touched.update(bundles)

    def is_lease_over(self) -> bool:
        """True when the last successful poll began longer ago than the lease."""
        return self.polled_ms is not None and (
            self.now_ms - self.polled_ms > self.settings.lease_ms
        )

    # ---------------------------------------------------------------- folding the channel

    def fold(self, record: ChannelRecord) -> None:
        """Applies one channel record by the conflict rule."""
        try:
            split_name(record.key)
            new = decode_channel(record.value)
        except (WireError, BundleNameError):
            self.count(unreadable=1)
            return
        old = self.table.get(record.key)
        if keep_old(old, new) is not None:
            self.count(losing=1)
            return
        self.count(accepted=1)
        self.touch((record.key,))
        self.touch(self._parents(record.key))
        if new is None or new.versionId >= self.published.get(record.key, 0):
            self.published.pop(record.key, None)
        self.wait_until_ms.pop(record.key, None)
        self._note_takeover(record.key, old, new)
        if new is None:
            self.table.pop(record.key, None)
        else:
            self.table[record.key] = new
            self._note_split(record.key, new)
        self.forget_split(record.key)

    def _note_split(self, bundle: str, new: ServiceUnitStateData) -> None:
        if self._is_splitting(new):
            self.splits[bundle] = children_of(bundle, new)

    def _note_takeover(
        self,
        bundle: str,
        old: ServiceUnitStateData | None,
        new: ServiceUnitStateData | None,
    ) -> None:
        """A record that did not wait for the old owner starts the grace, whoever it names.

        The next records may follow at once and in order (a transfer, a split, an assignment),
        so the grace belongs to the bundle and outlives the record that started it.
        """
        if self.phases.get(bundle, Phase.CLOSING) != Phase.CLOSING:
            return  # this broker itself is the old owner
        if old is None:
            is_takeover = new is not None and new.force
        elif new is None:
            is_takeover = old.state in ACTIVE
        else:
            is_takeover = new.force or new.versionId != next_version(old)
        if is_takeover:
            self.grace_until_ms[bundle] = self.now_ms + self.settings.takeover_grace_ms

    def forget_split(self, bundle: str) -> None:
        """Drops a split that is no longer ours, unless the broker still works on the parent."""
        record = self.table.get(bundle)
        if bundle not in self.phases and (record is None or not self._is_splitting(record)):
            self.splits.pop(bundle, None)

    def _parents(self, bundle: str) -> list[str]:
        return [parent for parent, children in self.splits.items() if bundle in children]

    def _owns(self, record: ServiceUnitStateData) -> bool:
        return record.state == ServiceUnitState.Owned and record.dstBroker == self.broker

    def _is_splitting(self, record: ServiceUnitStateData) -> bool:
        return record.state == ServiceUnitState.Splitting and record.sourceBroker == self.broker

    # ------------------------------------------------------- obeying the record that stands

    def reconcile(self) -> None:
        """Compares touched bundles with their records; silent until the channel is known."""
        if not self.is_caught_up or self.is_fenced:
            return
        while self._touched:
            bundles, self._touched = sorted(self._touched), set()
            for bundle in bundles:
                if self._is_free_to_act(bundle):
                    self._obey(bundle, self.table.get(bundle))

    def _is_free_to_act(self, bundle: str) -> bool:
        """No operation is running for the bundle or its parent, and no wait is left."""
        if any(parent in self.phases for parent in self._parents(bundle)):
            return False  # still served as part of its parent, whose end touches it again
        phase = self.phases.get(bundle)
        if phase not in IDLE_PHASES or self.now_ms < self.wait_until_ms.get(bundle, 0):
            return False
        self.wait_until_ms.pop(bundle, None)
        # The grace never keeps a broker from closing; it holds back all that comes after.
        if phase is None and self.now_ms < self.grace_until_ms.get(bundle, 0):
            return False
        if self.now_ms >= self.grace_until_ms.get(bundle, self.now_ms):
            self.grace_until_ms.pop(bundle, None)
        return True

    def touch_due(self) -> None:
        """Marks the bundles whose retry or grace is due."""
        for waits in (self.wait_until_ms, self.grace_until_ms):
            self.touch(bundle for bundle, at in waits.items() if at <= self.now_ms)

    def _obey(self, bundle: str, record: ServiceUnitStateData | None) -> None:
        if record is not None and self._owns(record):
            self._open(bundle)
        elif record is not None and self._is_splitting(record):
            self._split(bundle, record)
        elif bundle in self.phases:
            self.phases[bundle] = Phase.CLOSING
            self.act(Release(bundle))
        elif record is not None:
            self._answer(bundle, record)

    def _open(self, bundle: str) -> None:
        if bundle in self.phases:
            return
        self.phases[bundle] = Phase.OPENING
        self.act(Acquire(bundle))

    def _split(self, bundle: str, record: ServiceUnitStateData) -> None:
        """Children first, then the hand-over, then the end of the parent (pulsar.md 6.6)."""
        children = self.splits[bundle]
        lacking = [child for child in children if not self._is_known(child)]
        for child in lacking:
            self._publish(
                child,
                ServiceUnitStateData(
                    state=ServiceUnitState.Owned,
                    dstBroker=self.broker,
                    timestamp=0,
                    versionId=next_version(None),
                    decisionId=record.decisionId,
                ),
            )
        if lacking:
            return
        if bundle in self.phases:
            self.phases[bundle] = Phase.SPLITTING
            self.act(Split(bundle, children))
            return
        self._follow(bundle, record, ServiceUnitState.Deleted, record.dstBroker)

    def _is_known(self, child: str) -> bool:
        """The channel holds a record of the child, or of parts of it that were split since.

        The second case is a Splitting record forced upon a split that had long been carried
        out: writing the child again would lay it over its own children.
        """
        if child in self.table:
            return True
        namespace, lower, upper = split_name(child)
        for name in self.table:
            if name.startswith(namespace):
                other, at, end = split_name(name)
                if other == namespace and lower <= at and end <= upper:
                    return True
        return False

    def _answer(self, bundle: str, record: ServiceUnitStateData) -> None:
        """The record this broker owes the channel for a bundle that it does not serve."""
        source, destination = record.sourceBroker, record.dstBroker
        if record.state == ServiceUnitState.Assigning and destination == self.broker:
            self._follow(bundle, record, ServiceUnitState.Owned, destination)
        elif record.state == ServiceUnitState.Releasing and source == self.broker:
            after = ServiceUnitState.Assigning if destination else ServiceUnitState.Free
            self._follow(bundle, record, after, destination)
        elif record.state == ServiceUnitState.Deleted and source == self.broker:
            self._publish(bundle, None, next_version(record))

    def _follow(
        self,
        bundle: str,
        record: ServiceUnitStateData,
        state: ServiceUnitState,
        destination: str | None,
    ) -> None:
        """Publishes the successor of `record`: same source, next version."""
        successor = ServiceUnitStateData(
            state=state,
            dstBroker=destination,
            sourceBroker=record.sourceBroker,
            timestamp=0,
            versionId=next_version(record),
            decisionId=record.decisionId,
        )
        self._publish(bundle, successor)

    def _publish(
        self, bundle: str, record: ServiceUnitStateData | None, version: int | None = None
    ) -> None:
        number = record.versionId if record is not None else (version or 0)
        if self.published.get(bundle) == number:
            return  # written before; the channel has not said yet how it ended
        self.published[bundle] = number
        self.act(Publish(bundle, record))


def children_of(bundle: str, record: ServiceUnitStateData) -> tuple[str, ...]:
    """Full names of the children of a Splitting record, sorted; the record holds ranges."""
    namespace = bundle.rpartition("/")[0]
    return tuple(sorted(f"{namespace}/{key}" for key in record.splitServiceUnitToDestBroker or {}))
