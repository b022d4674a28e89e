"""One turn of the agent core: a working copy of the state, what happened, the actions so far.

The working copy is private to one call of `core.handle`; the state that came in is not changed.
Folding a record also ends at once what the record takes away; all else that follows from the
record that stands is done afterwards, by `controller.agent.obey`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from controller.agent.events import Action, ChannelRecord, Drop, Fence, Redirect, Unfence
from controller.agent.state import (
    AgentSettings,
    AgentState,
    Phase,
    SplitWork,
    deadline_of,
)
from controller.channel.conflict import keep_old, next_version
from controller.channel.states import ACTIVE, IN_FLIGHT
from controller.model.bundles import BundleNameError, split_name
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, decode_channel
from controller.wire.formats import TransportHealth
from controller.wire.rejects import WireError

Record = ServiceUnitStateData
_S = ServiceUnitState


class Turn:
    """Working copy of an `AgentState` for one event."""

    def __init__(self, state: AgentState, now_ms: int, settings: AgentSettings) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.broker = state.broker
        self.table: Mapping[str, Record] = state.table  # copied at the first change: it is large
        self.phases: dict[str, Phase] = dict(state.phases)
        self.published: dict[str, int] = dict(state.published)
        self.wait_until_ms: dict[str, int] = dict(state.wait_until_ms)
        self.grace_until_ms: dict[str, int] = dict(state.grace_until_ms)
        self.splits: dict[str, SplitWork] = dict(state.splits)
        self.transfers: set[str] = set(state.transfers)
        self.in_flight_ms: dict[str, int] = dict(state.in_flight_ms)
        self.touched: set[str] = set()
        self.read_ms = state.read_ms
        self.heard_ms = state.heard_ms
        self.heard_wait = state.heard_wait
        self.is_caught_up = state.is_caught_up
        self.is_fenced = state.is_fenced
        self.status = state.status
        self.heartbeat_due_ms = state.heartbeat_due_ms
        self.report_due_ms = state.report_due_ms
        self.is_report_forced = state.is_report_forced
        self.sequence = state.sequence
        self._jittery_until_ms = state.jittery_until_ms
        self._before = state
        self._own_table: dict[str, Record] | None = None
        self._counts = state.counts
        self._actions: list[Action] = []

    def finish(self) -> tuple[AgentState, tuple[Action, ...]]:
        """The new state and the actions, in the order in which they must be carried out."""
        self._forget_in_flight()
        state = replace(
            self._before,
            table=self.table,
            phases=self.phases,
            published=self.published,
            wait_until_ms=self.wait_until_ms,
            grace_until_ms=self.grace_until_ms,
            splits=self.splits,
            transfers=frozenset(self.transfers),
            in_flight_ms=self.in_flight_ms,
            read_ms=self.read_ms,
            heard_ms=self.heard_ms,
            heard_wait=self.heard_wait,
            is_caught_up=self.is_caught_up,
            is_fenced=self.is_fenced,
            status=self.status,
            jittery_until_ms=self._jittery_until_ms,
            heartbeat_due_ms=self.heartbeat_due_ms,
            report_due_ms=self.report_due_ms,
            is_report_forced=self.is_report_forced,
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

    def count_reason(self, reason: str) -> None:
        """Adds one to a reason."""
        reasons = {**self._counts.reasons, reason: self._counts.reasons.get(reason, 0) + 1}
        self._counts = replace(self._counts, reasons=reasons)

    def touch(self, bundles: Iterable[str]) -> None:
        """Marks bundles that `obey.reconcile` has to look at."""
        self.touched.update(bundles)

    # ----------------------------------------------------------------------- the lease

    def is_past_deadline(self) -> bool:
        """True when serving is not safe any more."""
        self._forget_in_flight()
        since = self.in_flight_ms.values()
        until_ms = deadline_of(self.read_ms, self.heard_ms, since, self.settings)
        return until_ms is not None and self.now_ms > until_ms

    def is_read_leg_over(self) -> bool:
        """True when the channel has not been read to its end for a whole lease."""
        return self.read_ms is not None and self.now_ms > self.read_ms + self.settings.lease_ms

    def fence(self) -> None:
        """Nothing is served after this; operations still running are waited for."""
        if self.is_fenced:
            return
        self.is_fenced = True
        self.is_caught_up = False
        self.count(fences=1)
        self.published.clear()
        self.wait_until_ms.clear()
        self.transfers.clear()
        running = [bundle for bundle, phase in self.phases.items() if phase != Phase.SERVING]
        self.phases = dict.fromkeys(running, Phase.UNSERVED)
        self.note_jitter()
        self.act(Fence())

    def resume(self) -> None:
        """Ends the fence if what it waited for has come."""
        if self.is_fenced and self.is_caught_up and not self.is_past_deadline():
            self.is_fenced = False
            self.act(Unfence())
            self.touch(self.table)

    def note_jitter(self) -> None:
        """The transport had trouble: said for a while, so that the controller can be careful."""
        self._jittery_until_ms = self.now_ms + self.settings.lease_ms

    def transport_health(self) -> TransportHealth:
        """What signs of life say about the transport."""
        return "jittery" if self.now_ms < self._jittery_until_ms else "stable"

    # ---------------------------------------------------------------- folding the channel

    def fold(self, record: ChannelRecord) -> None:
        """Applies one channel record by the conflict rule."""
        try:
            split_name(record.key)
            new = decode_channel(record.value)
        except (WireError, BundleNameError) as error:
            self.count(unreadable=1)
            self.count_reason(error.reason if isinstance(error, WireError) else "bad_name")
            return
        old = self.table.get(record.key)
        lost_by = keep_old(old, new)
        if lost_by is not None:
            self.count(losing=1)
            self.count_reason(lost_by)
            return
        self.count(accepted=1)
        self._accept(record.key, old, new)

    def _accept(self, bundle: str, old: Record | None, new: Record | None) -> None:
        self.touch((bundle, *self.parents(bundle)))
        if new is None or new.versionId >= self.published.get(bundle, 0):
            self.published.pop(bundle, None)
        self.wait_until_ms.pop(bundle, None)
        self._note_takeover(bundle, old, new)
        self._set(bundle, new)
        self._note_split(bundle, new)
        self._take_away(bundle, old, new)
        # As Pulsar's brokers: what was reported before a move says little about what comes.
        self.is_report_forced |= self.is_ours(new)
        if new is not None and new.state in IN_FLIGHT:
            # Written after the last read began, which did not bring it.
            self.in_flight_ms[bundle] = self.now_ms if self.read_ms is None else self.read_ms
        self._note_transfer(bundle, new)
        self.forget_split(bundle)

    def _set(self, bundle: str, new: Record | None) -> None:
        if self._own_table is None:
            self.table = self._own_table = dict(self.table)
        if new is None:
            self._own_table.pop(bundle, None)
        else:
            self._own_table[bundle] = new

    def _note_takeover(self, bundle: str, old: Record | None, new: Record | None) -> None:
        """A record that did not wait for the old owner starts the grace, whoever it names.

        The next records may follow at once and in order (a transfer, a split, an assignment),
        so the grace belongs to the bundle and outlives the record that started it.
        """
        if self.phases.get(bundle) in (Phase.OPENING, Phase.SERVING, Phase.SPLITTING):
            return  # this broker itself is the old owner
        if old is None:
            is_takeover = new is not None and new.force
        elif new is None:
            is_takeover = old.state in ACTIVE
        else:
            is_takeover = new.force or new.versionId != next_version(old)
        if is_takeover:
            self.grace_until_ms[bundle] = self.now_ms + self.settings.takeover_grace_ms

    def _note_split(self, bundle: str, new: Record | None) -> None:
        """Each new record of a split starts it afresh, also one that was given up."""
        if new is None or not self.is_splitting(new):
            return
        children = children_of(bundle, new)
        if not children:
            self.count_reason("bad_children")
        self.splits[bundle] = SplitWork(children)

    def _take_away(self, bundle: str, old: Record | None, new: Record | None) -> None:
        """Ends at once what is served against the new record (rule 3 of the core).

        A child is served as part of its parent until the split is done: who takes the child
        takes it from the parent.
        """
        if not self.is_ours(new):
            self.drop(bundle)
            is_taken = new is not None or (old is not None and old.state in ACTIVE)
            for parent in self.parents(bundle) if is_taken else ():
                self.drop(parent)
        known = (self.table.get(child) for child in self.children(bundle))
        if any(record is not None and not self.is_ours(record) for record in known):
            self.drop(bundle)

    def drop(self, bundle: str) -> None:
        """Ends serving of a bundle, and of what a running split may have put in its place."""
        phase = self.phases.get(bundle)
        if phase is None or phase == Phase.UNSERVED:
            return
        self.count(drops=1)
        self.act(Drop(bundle))
        if phase == Phase.SERVING:
            del self.phases[bundle]
        else:
            self.phases[bundle] = Phase.UNSERVED
        if phase == Phase.SPLITTING:
            for child in self.children(bundle):
                self.act(Drop(child))
        self.touch((bundle, *self.children(bundle)))

    def _note_transfer(self, bundle: str, new: Record | None) -> None:
        """Ends a transfer from this broker when its record says who has the bundle now."""
        if bundle not in self.transfers:
            return
        if new is not None and new.state in (_S.Assigning, _S.Releasing):
            return
        self.transfers.discard(bundle)
        is_elsewhere = new is not None and new.state == _S.Owned and new.dstBroker != self.broker
        self.act(Redirect(bundle, new.dstBroker if new is not None and is_elsewhere else None))

    def _forget_in_flight(self) -> None:
        """Keeps only what is served although its record says that it is to end."""
        for bundle in list(self.in_flight_ms):
            record = self.table.get(bundle)
            is_served = self.phases.get(bundle, Phase.UNSERVED) != Phase.UNSERVED
            if not is_served or record is None or record.state not in IN_FLIGHT:
                del self.in_flight_ms[bundle]

    def forget_split(self, bundle: str) -> None:
        """Drops a split that is no longer ours, unless the broker still works on the parent."""
        record = self.table.get(bundle)
        if bundle not in self.phases and (record is None or not self.is_splitting(record)):
            self.splits.pop(bundle, None)

    def children(self, bundle: str) -> tuple[str, ...]:
        """Children of a bundle that this broker is splitting; else none."""
        work = self.splits.get(bundle)
        return () if work is None else work.children

    def parents(self, bundle: str) -> list[str]:
        """Bundles that this broker is splitting into this one, among others."""
        return [parent for parent, work in self.splits.items() if bundle in work.children]

    def owns(self, record: Record) -> bool:
        """True for Owned by this broker."""
        return record.state == _S.Owned and record.dstBroker == self.broker

    def is_splitting(self, record: Record) -> bool:
        """True for Splitting by this broker."""
        return record.state == _S.Splitting and record.sourceBroker == self.broker

    def is_releasing(self, record: Record) -> bool:
        """True for Releasing by this broker."""
        return record.state == _S.Releasing and record.sourceBroker == self.broker

    def is_ours(self, record: Record | None) -> bool:
        """True if nobody else may serve the bundle until this broker writes the next record."""
        return record is not None and (
            self.owns(record) or self.is_releasing(record) or self.is_splitting(record)
        )


def children_of(bundle: str, record: Record) -> tuple[str, ...]:
    """Full names of the children of a Splitting record, in order; the record holds ranges.

    None at all unless they cover the parent exactly, without gap or overlap: serving them
    instead of it would leave hashes to nobody, or take those of another bundle.
    """
    namespace, lower, upper = split_name(bundle)
    names = sorted(f"{namespace}/{key}" for key in record.splitServiceUnitToDestBroker or {})
    edges = [split_name(name)[1:] for name in names]
    is_whole = len(edges) > 1 and edges[0][0] == lower and edges[-1][1] == upper
    if not is_whole or any(end != at for (_, end), (at, _) in pairwise(edges)):
        return ()
    return tuple(names)
