"""Builds the frozen cluster view: tables, liveness, in-flight moves, cool-downs.

Brokers are put in name order; a broker slot becomes a view index through `Places`. Load of moves
that are pending, in flight, or done but not yet reported is taken from the source and given to
the destination, so that no round moves the same load twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from controller.core.state.columns import Columns
from controller.core.state.memory import Move
from controller.core.state.tables import (
    DELETED,
    GONE,
    INIT,
    LEAVING,
    OWNED,
    SPLITTING,
)
from controller.core.state.topics import KnownTopics
from controller.core.view.load import attributed_load
from controller.core.view.rules import keepers, with_rules
from controller.core.work import Work
from controller.load.namespaces import belongs_to_a_broker as is_of_a_broker
from controller.load.usage import CPU_LIMIT
from controller.strategies.place.booking import expected_rate
from controller.strategies.view import Bools, ClusterView, Floats, Ints


class Health(StrEnum):
    """How far the picture of the cluster can be trusted (Pulsar's metadata states, §6.9)."""

    STABLE = "Stable"
    JITTERY = "Jittery"  # Unstable a moment ago, or just started: silence means little yet
    UNSTABLE = "Unstable"  # so many late or jittery that the pipeline is suspected: safe mode


@dataclass(frozen=True, slots=True)
class Liveness:
    """Who speaks. Arrays by broker slot; free slots are False everywhere."""

    exists: Bools
    is_live: Bools  # sign of life within takeover_after_ms, and not said to be gone
    is_gone: Bools  # silent that long (grace after safe mode included), or said so: has orphans
    is_leaving: Bools  # live, and asks to be rid of its bundles
    is_draining: Bools  # live, and an operator wants it empty
    is_fresh: Bools  # live, and load younger than report_ttl_ms
    is_cooling: Bools  # involved in a move within broker_cooldown_ms
    health: Health

    @property
    def is_safe_mode(self) -> bool:
        """True while nothing is believed of silent brokers."""
        return self.health is Health.UNSTABLE

    @property
    def can_receive(self) -> Bools:
        """Brokers that may be given a bundle."""
        return self.is_live & ~self.is_leaving & ~self.is_draining

    @property
    def silent(self) -> int:
        """Number of brokers that gave no sign of life for too long."""
        return int((self.exists & ~self.is_live).sum())


@dataclass(frozen=True, slots=True)
class Places:
    """Translation between broker slots and view indices."""

    slots: Ints  # view index -> slot
    index: Ints  # slot -> view index, -1 = none; the last entry stands for slot -1


def liveness(work: Work, now_ms: int) -> Liveness:
    """Who is live, leaving, fresh and cooling at `now_ms`.

    Safe mode: of the brokers that still own something or spoke lately, more than
    `safe_mode_share` are late, or say that the log fails them. Late comes well before gone,
    because brokers that fall silent at once do not do so in the same millisecond. A broker that
    said it is gone is neither late nor waited for.
    """
    brokers, settings = work.state.brokers, work.settings
    exists = np.array([bool(name) for name in brokers.names], np.bool_)
    silent_ms = now_ms - brokers["last_seen_ms"]
    has_left = exists & (brokers["status"] == GONE)
    is_live = exists & ~has_left & (silent_ms < settings.liveness.takeover_after_ms)
    age_ms = now_ms - brokers["reported_ms"]
    has_load = brokers["reported_ms"] > 0
    is_fresh = is_live & has_load & (age_ms < settings.liveness.report_ttl_ms)
    cooldown = settings.actions.broker_cooldown_ms
    moved = brokers["moved_ms"]
    is_cooling = exists & (moved > 0) & (now_ms - moved < cooldown)
    serves = np.zeros(brokers.size, np.bool_)
    serving = work.state.bundles["serving"]
    serves[serving[serving >= 0]] = True
    counted = exists & ~has_left & (is_live | serves)
    is_late = silent_ms >= settings.liveness.late_after_ms
    troubled = int((counted & (is_late | (brokers["is_jittery"] != 0))).sum())
    is_unstable = troubled > settings.liveness.safe_mode_share * max(1, int(counted.sum()))
    health = Health.UNSTABLE if is_unstable else _calm(work, now_ms)
    is_gone = exists & ~is_live & (has_left | (health is not Health.JITTERY))
    is_leaving = is_live & (brokers["status"] == LEAVING)
    draining = work.state.memory.drains
    is_draining = is_live & np.array([name in draining for name in brokers.names], np.bool_)
    return Liveness(exists, is_live, is_gone, is_leaving, is_draining, is_fresh, is_cooling, health)


def _calm(work: Work, now_ms: int) -> Health:
    """Stable once nothing was wrong for as long as a broker may be silent."""
    memory = work.state.memory
    calm_ms = now_ms - max(memory.grace_ms, memory.started_ms)
    patience_ms = work.settings.liveness.takeover_after_ms
    return Health.JITTERY if calm_ms < patience_ms else Health.STABLE


def places(brokers: Columns) -> Places:
    """Brokers in name order."""
    slots = np.array([brokers.slots[name] for name in sorted(brokers.slots)], np.int64)
    index = np.full(brokers.size + 1, -1, np.int64)
    index[slots] = np.arange(len(slots))
    return Places(slots, index)


def build_view(work: Work, now_ms: int, alive: Liveness) -> tuple[ClusterView, Places]:
    """The view at `now_ms`, and the translation of its broker indices."""
    bundles, brokers = work.state.bundles, work.state.brokers
    order = places(brokers)
    serving = bundles["serving"].astype(np.int64)
    attributed = attributed_load(bundles, brokers, serving)
    figures = _adjusted(work)
    owner = np.where(bundles["state"] == OWNED, serving, -1)
    namespace = bundles["namespace"].astype(np.int64)
    excluded = _excluded(work)[namespace]
    pinned = _pinned(work)
    exists = (bundles["state"] != INIT) & (bundles["state"] != DELETED)
    short = bundles["short"].astype(np.float64)
    settled = (owner >= 0) & ~pinned & ~_has_decision(work)
    slots = order.slots
    view = ClusterView(
        now_ms=now_ms,
        broker_names=tuple(brokers.names[slot] for slot in slots.tolist()),
        broker_load=np.maximum(figures.load[slots], 0.0),
        broker_load_ema=figures.ema[slots],
        broker_rate=figures.rate[slots],
        broker_throughput=figures.throughput[slots],
        broker_throughput_ema=brokers["throughput_ema"][slots],
        broker_long_rate=figures.long_rate[slots],
        broker_topics=figures.topics[slots],
        broker_bundles=(_bundles_per_broker(bundles, brokers.size) + figures.coming)[slots],
        broker_capacity=brokers["usage"][slots, CPU_LIMIT],
        broker_reported_ms=brokers["reported_ms"][slots],
        broker_unloaded_ms=brokers["unloaded_ms"][slots],
        broker_is_registered=alive.is_live[slots],
        broker_is_live=alive.can_receive[slots],
        broker_can_shed=(alive.is_fresh & ~alive.is_cooling & alive.can_receive)[slots],
        bundle_names=bundles.names,
        bundle_owner=order.index[owner],
        bundle_is_movable=settled & ~excluded & ~_is_cooling(work, now_ms),
        bundle_is_settled=settled,
        bundle_is_reported=bundles["sampled_ms"] > 0,
        bundle_is_splitting=bundles["state"] == SPLITTING,
        bundle_is_excluded=excluded,
        bundle_is_pinned=pinned,
        bundle_has_policy=np.zeros(bundles.size, np.bool_),
        bundle_left=order.index[_no_return(work, now_ms)],
        bundle_short=short,
        bundle_long=bundles["long"].astype(np.float64),
        bundle_now=bundles["raw"].astype(np.float64),
        bundle_rate=short[:, 0] + short[:, 1],
        bundle_throughput=short[:, 2] + short[:, 3],
        bundle_load=attributed,
        bundle_topics=bundles["topics"].astype(np.int64),
        bundle_sessions=bundles["sessions"].astype(np.int64),
        bundle_namespace=namespace,
        bundle_lower=bundles["lower"].astype(np.int64),
        bundle_upper=bundles["upper"].astype(np.int64),
        bundle_topic_boundary=bundles["topic_boundary"].astype(np.int64),
        namespaces=tuple(work.state.namespaces),
        namespace_bundles=np.bincount(namespace[exists], minlength=len(work.state.namespaces)),
        namespace_rank=_ranks(work.state.namespaces),
        topics=KnownTopics(work.state.memory.topics, bundles.slots),
    )
    return with_rules(work, view, order.index), order


@dataclass(frozen=True, slots=True)
class _Figures:
    """Of brokers, by slot, with moves applied that the reports lack.

    With `parity` nothing is applied: Pulsar decides on what the reports say.
    """

    load: Floats
    ema: Floats
    rate: Floats
    throughput: Floats
    long_rate: Floats
    topics: Ints
    coming: Ints  # bundles assigned by us that the channel does not show yet


def _adjusted(work: Work) -> _Figures:
    """Sums are made in the order of the decisions, as a placement books them one by one."""
    brokers, bundles = work.state.brokers, work.state.bundles
    totals = brokers["totals"]
    figures = _Figures(
        brokers["load"].copy(),
        brokers["load_ema"].copy(),
        totals[:, 0] + totals[:, 1],
        totals[:, 2] + totals[:, 3],
        _long_rates(bundles, brokers.size),
        brokers["topics"].copy(),
        np.zeros(brokers.size, np.int64),
    )
    reported = brokers["reported_ms"]
    for name, move in work.state.memory.moves.items():
        if not move.moves_load or work.settings.parity:
            continue
        bundle = bundles.slots[name]
        _move_long_rate(work, figures.long_rate, move, bundle)
        for broker, sign, done_ms, part in (
            (move.source, -1, move.left_ms, move.load_source),
            (move.destination, 1, move.arrived_ms, move.load_destination),
        ):
            slot = brokers.slots.get(broker or "", -1)
            if slot < 0 or (done_ms and reported[slot] > done_ms):
                continue
            figures.load[slot] += sign * part
            figures.ema[slot] += sign * part
            figures.rate[slot] += sign * move.rate
            figures.throughput[slot] += sign * move.throughput
            figures.topics[slot] += sign * int(bundles["topics"][bundle])
        if move.seen_ms == 0 and move.kind == "assign":
            figures.coming[brokers.slots[move.destination or ""]] += 1
    return figures


def _long_rates(bundles: Columns, size: int) -> Floats:
    """Messages/s that the bundles of each broker carry by their long-term averages."""
    serving, long = bundles["serving"], bundles["long"].astype(np.float64)
    served = serving >= 0
    rates = (long[:, 0] + long[:, 1])[served]
    return np.bincount(serving[served], rates, minlength=size).astype(np.float64)


def _move_long_rate(work: Work, rates: Floats, move: Move, bundle: int) -> None:
    """Takes a bundle's long-term rate to its destination as soon as that is decided."""
    bundles, slots = work.state.bundles, work.state.brokers.slots
    destination = slots.get(move.destination or "", -1)
    if move.arrived_ms or destination < 0:
        return
    rate = expected_rate(bundles["long"][bundle].astype(np.float64))
    rates[destination] += rate
    serving = int(bundles["serving"][bundle])
    if serving >= 0 and serving != destination:
        rates[serving] -= rate


def is_settled(work: Work, move: Move) -> bool:
    """True once both brokers reported after the move: its load is in their figures."""
    brokers = work.state.brokers
    if not move.arrived_ms:
        return False
    for broker in (move.source, move.destination):
        slot = brokers.slots.get(broker or "", -1)
        if slot >= 0 and int(brokers["reported_ms"][slot]) <= move.arrived_ms:
            return False
    return True


def is_in_flight(move: Move) -> bool:
    """True from the decision until the destination owns the bundle (or the split is done)."""
    return move.arrived_ms == 0


def _bundles_per_broker(bundles: Columns, size: int) -> Ints:
    """Bundles that a broker serves and keeps, or is about to get."""
    keeper = keepers(bundles)
    return np.bincount(keeper[keeper >= 0], minlength=size)


def _is_cooling(work: Work, now_ms: int) -> Bools:
    """Bundles that moved a short while ago."""
    moved = work.state.bundles["moved_ms"]
    cooling: Bools = (moved > 0) & (now_ms - moved < work.settings.actions.bundle_cooldown_ms)
    return cooling


def _has_decision(work: Work) -> Bools:
    """Bundles that have a decision of ours in flight."""
    bundles = work.state.bundles
    held = np.zeros(bundles.size, np.bool_)
    for name, move in work.state.memory.moves.items():
        if is_in_flight(move):
            held[bundles.slots[name]] = True
    return held


def _pinned(work: Work) -> Bools:
    bundles = work.state.bundles
    pinned = np.zeros(bundles.size, np.bool_)
    for name in work.state.memory.pins:
        if name in bundles.slots:
            pinned[bundles.slots[name]] = True
    return pinned


def _no_return(work: Work, now_ms: int) -> Ints:
    """Broker slot that each bundle must not go back to now, -1 = none."""
    bundles, actions = work.state.bundles, work.settings.actions
    rate = bundles["short"][:, 0].astype(np.float64) + bundles["short"][:, 1]
    left_rate = bundles["left_rate"].astype(np.float64)
    changed = np.abs(rate - left_rate) > actions.no_return_change_ratio * left_rate
    recent = now_ms - bundles["moved_ms"] < actions.no_return_ms
    return np.where(recent & ~changed, bundles["left"], -1).astype(np.int64)


def _excluded(work: Work) -> Bools:
    """By namespace: those that belong to a broker, and those that the settings exclude."""
    names = work.settings.actions.excluded_namespaces
    listed = [name in names for name in work.state.namespaces]
    return np.array(listed or [False], np.bool_) | belongs_to_a_broker(work)


def belongs_to_a_broker(work: Work) -> Bools:
    """By namespace: heartbeat and SLA namespaces, whose bundles never leave their broker."""
    own = [is_of_a_broker(name) for name in work.state.namespaces]
    return np.array(own or [False], np.bool_)


def _ranks(namespaces: list[str]) -> Ints:
    ranks = np.empty(len(namespaces), np.int64)
    ranks[np.argsort(np.array(namespaces, dtype=object), kind="stable")] = np.arange(
        len(namespaces)
    )
    return ranks
