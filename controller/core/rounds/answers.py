"""Answers assignment requests: gives unowned bundles to brokers, at once where it can.

Each request is answered when its record is folded, so the answer does not depend on how the log
was cut. The placement begun for one request serves the next ones until anything else changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from controller.core.rounds.decide import Wish, write_assign
from controller.core.rounds.log import answer
from controller.core.state.tables import ASSIGNING, FREE, INIT, OWNED, RELEASING, SPLITTING
from controller.core.view.build import Liveness, Places, build_view, liveness
from controller.core.work import Work
from controller.strategies.filters import Candidates, Pipeline
from controller.strategies.protocols import Choice, Placement, Unowned
from controller.strategies.registry import place_strategy
from controller.strategies.verdicts import Reason, Verdict, VerdictTally
from controller.strategies.view import ClusterView, Ints
from controller.wire.decisions import DecisionEntry

IN_USE = (ASSIGNING, OWNED, RELEASING, SPLITTING)


@dataclass(frozen=True, slots=True)
class Desk:
    """A placement in progress, with what is needed to describe a bundle to it."""

    view: ClusterView
    places: Places
    placement: Placement
    avoid: Ints  # by bundle slot: view index of the broker not to return to

    @property
    def rules(self) -> Pipeline | None:
        """The filter of its view, if there is anything to filter."""
        return self.view.filter if isinstance(self.view.filter, Pipeline) else None


def is_warm(work: Work, now_ms: int) -> bool:
    """True once a new memory has watched the log for `warmup_ms`."""
    started = work.state.memory.started_ms
    return started > 0 and now_ms - started >= work.settings.rounds.warmup_ms


def open_desk(work: Work, now_ms: int, alive: Liveness) -> Desk:
    """Begins a placement on the present view."""
    work.flush()
    view, places = build_view(work, now_ms, alive)
    memory = work.state.memory.remembered("place", work.settings.place)
    placement = place_strategy(work.settings).begin(view, memory)
    return Desk(view, places, placement, view.bundle_left)


def choose(work: Work, desk: Desk, name: str, leaves: int = -1) -> Choice:
    """Chooses an owner for one bundle, and remembers what the strategy wants remembered.

    A bundle that `leaves` a broker is not given back to it where there is another one.
    """
    bundle = unowned(work, desk, name)
    if leaves >= 0 and bundle.avoid < 0 and not work.settings.parity:
        bundle = replace(bundle, avoid=leaves)
    if desk.rules is None:
        choice = desk.placement.choose(bundle)
    else:
        request = work.state.memory.requests.get(name)
        choice = _by_rules(desk, desk.rules, bundle, request.topics if request else None)
    work.state.memory.remember("place", work.settings.place, desk.placement.memory)
    return choice


def _by_rules(desk: Desk, rules: Pipeline, bundle: Unowned, kind: str | None) -> Choice:
    """A choice among the brokers that the rules of the cluster leave, booked on them too.

    A pin is an operator's word about one bundle, and stands above the rules.
    """
    found: Candidates | None = None
    if bundle.pinned < 0:
        found = rules.candidates(bundle.name, bundle.at, kind)
        if not len(found.brokers):
            return Choice(-1, 0.0, rules.nobody(bundle.name, kind))
        bundle = replace(bundle, candidates=found.brokers)
    choice = desk.placement.choose(bundle)
    if choice.broker < 0:
        return choice
    rules.book(bundle.name, bundle.at, choice.broker, bundle.topics, choice.load)
    if found is not None and found.is_cap_skipped:
        choice = replace(choice, verdict=rules.full(bundle.name))
    return choice


def tell(choice: Choice, name: str, tally: VerdictTally) -> None:
    """Adds what a choice has to say: why there is none, or which rule it had to pass over."""
    if choice.verdict is not None:
        tally.add(choice.verdict)
    elif choice.broker < 0:
        tally.add(Verdict(name, Reason.NO_BROKERS))


def unowned(work: Work, desk: Desk, name: str) -> Unowned:
    """What a placement needs to know of a bundle; one that is new since the view has no past."""
    slot = work.state.bundles.slots[name]
    pinned = pinned_to(work, desk, name)
    if slot >= len(desk.avoid):
        return Unowned(name, 0, 0.0, -1, pinned)
    return Unowned(
        name,
        int(desk.view.bundle_topics[slot]),
        float(desk.view.bundle_load[slot]),
        int(desk.avoid[slot]),
        pinned,
        slot,
    )


def pinned_to(work: Work, desk: Desk, name: str) -> int:
    """View index of the broker that a bundle is pinned to, if it may be given a bundle; or -1."""
    pin = work.state.memory.pins.get(name)
    slot = -1 if pin is None else work.state.brokers.slots.get(pin.broker, -1)
    at = int(desk.places.index[slot])
    return at if at >= 0 and desk.view.broker_is_live[at] else -1


def answer_requests(work: Work, now_ms: int) -> None:
    """Answers all waiting requests, or leaves them waiting if no broker can take them."""
    work.is_answer_due = False
    if not work.state.memory.requests or not is_warm(work, now_ms):
        return
    if work.desk is None or work.desk.view.now_ms != now_ms:
        alive = liveness(work, now_ms)
        if not alive.can_receive.any():
            return
        work.desk = open_desk(work, now_ms, alive)
    decisions, verdicts = assign_waiting(work, work.desk, now_ms, is_tick=False)
    if decisions or verdicts:
        answer(work, now_ms, decisions, verdicts)


def assign_waiting(
    work: Work, desk: Desk, now_ms: int, *, is_tick: bool = True
) -> tuple[list[DecisionEntry], list[Verdict]]:
    """Decides for every request whose bundle is still unowned; drops the others."""
    bundles, requests = work.state.bundles, work.state.memory.requests
    decisions: list[DecisionEntry] = []
    verdicts: list[Verdict] = []
    asked = [name for name, one in requests.items() if is_tick or not one.is_barred]
    for name in sorted(asked):
        if name in work.state.memory.moves:
            continue  # its tombstone is on its way; nothing may be written before it is back
        slot = bundles.slots.get(name)
        if slot is None or int(bundles["state"][slot]) not in (INIT, FREE):
            del requests[name]
            continue
        rival = _rival(work, slot)
        if rival is not None:
            del requests[name]
            inputs, flips_if = (("bundle", rival),), "that bundle is unowned or gone"
            verdicts.append(Verdict(name, Reason.OVERLAP, inputs, flips_if=flips_if))
            continue
        choice = choose(work, desk, name)
        verdicts += [choice.verdict] if choice.verdict else []
        if choice.broker < 0:
            is_barred = choice.verdict is not None and choice.verdict.reason is Reason.ISOLATION
            requests[name] = msgspec.structs.replace(requests[name], is_barred=is_barred)
            continue
        wish = Wish(
            "assign",
            name,
            None,
            desk.view.broker_names[choice.broker],
            "unowned",
            f"asked by {requests[name].who}",
            load=(0.0, choice.load),
        )
        decisions.append(write_assign(work, wish, now_ms))
    return decisions, verdicts


def _rival(work: Work, slot: int) -> str | None:
    """A bundle in use whose range overlaps that of a bundle which the channel knows nothing of.

    Say, a child of a bundle that was split and has left the channel, while somebody with old
    boundaries still asks for the parent. A bundle with a record is not questioned here.
    """
    bundles, moves = work.state.bundles, work.state.memory.moves
    state, lower, upper = bundles["state"], bundles["lower"], bundles["upper"]
    if int(state[slot]) != INIT:
        return None
    near = work.neighbours(slot)
    near = near[(lower[near] < upper[slot]) & (upper[near] > lower[slot]) & (near != slot)]
    names = [bundles.names[at] for at in near.tolist() if int(state[at]) in IN_USE]
    names += [bundles.names[at] for at in near.tolist() if bundles.names[at] in moves]
    return min(names, default=None)
