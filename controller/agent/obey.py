"""What a broker does about the record that stands for a bundle (pulsar.md 6.5 and 6.6).

`reconcile` compares the bundles that a turn has touched with their records; each difference
becomes one action. Called by `controller.agent.core` at the end of an event.
"""

from __future__ import annotations

from controller.agent.events import Acquire, Publish, Release, Split
from controller.agent.state import Phase
from controller.agent.turn import Turn
from controller.channel.conflict import next_version
from controller.model.bundles import split_name
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, has_text

IDLE_PHASES = (None, Phase.SERVING)
"""Phases in which no operation of the broker is running for the bundle."""


def reconcile(turn: Turn) -> None:
    """Compares touched bundles with their records; silent until the channel is known."""
    if not turn.is_caught_up or turn.is_fenced:
        return
    while turn.touched:
        bundles, turn.touched = sorted(turn.touched), set()
        for bundle in bundles:
            if _is_free_to_act(turn, bundle):
                _obey(turn, bundle, turn.table.get(bundle))


def touch_due(turn: Turn) -> None:
    """Marks the bundles whose retry or grace is due, and parents that wait for them."""
    for waits in (turn.wait_until_ms, turn.grace_until_ms):
        for bundle in [bundle for bundle, at in waits.items() if at <= turn.now_ms]:
            turn.touch((bundle, *turn.parents(bundle)))


def _is_free_to_act(turn: Turn, bundle: str) -> bool:
    """No operation is running for the bundle or its parent, and no wait is left."""
    if any(parent in turn.phases for parent in turn.parents(bundle)):
        return False  # still served as part of its parent, whose end touches it again
    phase = turn.phases.get(bundle)
    if phase not in IDLE_PHASES or turn.now_ms < turn.wait_until_ms.get(bundle, 0):
        return False
    turn.wait_until_ms.pop(bundle, None)
    # The grace never keeps a broker from closing; it holds back all that comes after.
    return phase is not None or not _is_in_grace(turn, bundle)


def _is_in_grace(turn: Turn, bundle: str) -> bool:
    until_ms = turn.grace_until_ms.get(bundle)
    if until_ms is not None and turn.now_ms >= until_ms:
        del turn.grace_until_ms[bundle]
        return False
    return until_ms is not None


def _obey(turn: Turn, bundle: str, record: ServiceUnitStateData | None) -> None:
    if record is not None and turn.owns(record):
        _open(turn, bundle)
    elif record is not None and turn.is_splitting(record):
        _split(turn, bundle, record)
    elif bundle not in turn.phases:
        if record is not None:
            _answer(turn, bundle, record)
    elif record is not None and turn.is_releasing(record):
        turn.phases[bundle] = Phase.CLOSING
        is_known = has_text(record.dstBroker) and record.dstBroker != turn.broker
        turn.act(Release(bundle, record.dstBroker if is_known else None))
    else:
        turn.drop(bundle)  # served as a child of a split while somebody else took it


def _open(turn: Turn, bundle: str) -> None:
    if bundle not in turn.phases:
        turn.phases[bundle] = Phase.OPENING
        turn.act(Acquire(bundle))


def _split(turn: Turn, bundle: str, record: ServiceUnitStateData) -> None:
    """Children first, then the boundaries, then the end of the parent (pulsar.md 6.6)."""
    work = turn.splits[bundle]
    if not work.children:
        return  # cannot be carried out; the controller repairs what stays in flight
    if work.is_done:
        _follow(turn, bundle, record, ServiceUnitState.Deleted, record.dstBroker)
        return
    lacking = [child for child in work.children if not _is_known(turn, child)]
    for child in lacking:
        _write_child(turn, child, record)
    if lacking or work.tries >= turn.settings.split_tries_max:
        return
    turn.phases[bundle] = Phase.SPLITTING if bundle in turn.phases else Phase.UNSERVED
    turn.act(Split(bundle, work.children))


def _write_child(turn: Turn, child: str, parent: ServiceUnitStateData) -> None:
    if _is_in_grace(turn, child):
        return
    owned = ServiceUnitStateData(
        state=ServiceUnitState.Owned,
        dstBroker=turn.broker,
        timestamp=0,
        versionId=next_version(None),
        decisionId=parent.decisionId,
    )
    _publish(turn, child, owned)


def _is_known(turn: Turn, child: str) -> bool:
    """The channel holds a record of the child, or of parts of it that were split since.

    The second case is a Splitting record forced upon a split that had long been carried out:
    writing the child again would lay it over its own children.
    """
    if child in turn.table:
        return True
    namespace, lower, upper = split_name(child)
    for name in turn.table:
        if name.startswith(namespace):
            other, at, end = split_name(name)
            if other == namespace and lower <= at and end <= upper:
                return True
    return False


def _answer(turn: Turn, bundle: str, record: ServiceUnitStateData) -> None:
    """The record this broker owes the channel for a bundle that it does not serve.

    Deleted is answered by nobody: the tombstone is the controller's, after a delay, because a
    late duplicate of an old record would bring the parent back once its Deleted is forgotten.
    """
    if record.state == ServiceUnitState.Assigning and record.dstBroker == turn.broker:
        _follow(turn, bundle, record, ServiceUnitState.Owned, record.dstBroker)
    elif turn.is_releasing(record):
        is_transfer = has_text(record.dstBroker)
        after = ServiceUnitState.Assigning if is_transfer else ServiceUnitState.Free
        _follow(turn, bundle, record, after, record.dstBroker)


def _follow(
    turn: Turn,
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
    _publish(turn, bundle, successor)


def _publish(turn: Turn, bundle: str, record: ServiceUnitStateData) -> None:
    if turn.published.get(bundle) == record.versionId:
        return  # written before; the channel has not said yet how it ended
    turn.published[bundle] = record.versionId
    turn.act(Publish(bundle, record))
