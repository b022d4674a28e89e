"""The channel as far as anybody can still see it: what stands, and what some reader has not read.

Readers that run hold a position in the tail. What all of them have read goes into the trunk,
which only a process that starts from the beginning reads; there only what still matters to such a
one is kept, as a compaction does it: the record that stands for a bundle, all from the first loser
on that nothing has healed, and a forced record for as long as a new reader's grace may need it.

Each append is judged by `controller.sim.chaos.judge`, which has a conflict rule of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from controller.sim.chaos.judge import LIVE, Judge, Row, Violation
from controller.sim.explore.records import Aged, Rec, to_bytes
from controller.sim.explore.times import CHANNEL, CORE_AGE_MAX, NAMESPACE, TAKEOVER_KEPT
from controller.transport.port import LogRecord

BEGINNING = -1  # position of a reader that has read nothing, not even the trunk


class Newcomers(IntEnum):
    """Who may still come and read from the beginning."""

    NOBODY = 0
    AGENTS = 1
    LEADER = 2  # and agents


@dataclass(frozen=True, slots=True)
class ChannelLog:
    """See the module text. `positions`: of the two agents and the leader."""

    trunk: tuple[Aged, ...] = ()
    tail: tuple[Aged, ...] = ()
    positions: tuple[int, ...] = (0, 0, 0)
    stands: Mapping[str, Rec] = field(default_factory=dict)  # by the judge's own rule
    is_whole: bool = False  # the namespace was covered once


def key_of(log: ChannelLog) -> Hashable:
    """What tells two logs apart."""
    return (log.trunk, log.tail, log.positions, log.is_whole, tuple(sorted(log.stands.items())))


def append(log: ChannelLog, records: Iterable[Rec]) -> ChannelLog:
    """Appends all of them; raises `Violation` if one is accepted that must not be."""
    judge = Judge(CHANNEL, lambda: (), table={k: _row(r) for k, r in log.stands.items()})
    if log.is_whole:
        judge.whole.add(NAMESPACE)
    stands, tail = dict(log.stands), list(log.tail)
    for rec in records:
        before = judge.accepted
        judge.see(LogRecord(0, CHANNEL, 0, 0, rec.key, to_bytes(rec), (), 0))
        has_won = judge.accepted > before
        tail.append(Aged(rec, 0, has_won))
        if has_won and rec.state:
            stands[rec.key] = rec
        elif has_won:
            del stands[rec.key]
    judge.look()
    if judge.whole and not any(rec.state in LIVE for rec in stands.values()):
        raise Violation(f"{NAMESPACE} has nobody: {sorted(stands)}")
    return _trimmed(
        replace(log, tail=tuple(tail), stands=stands, is_whole=NAMESPACE in judge.whole)
    )


def unread(log: ChannelLog, reader: int) -> tuple[Aged, ...]:
    """What a reader has not read."""
    at = log.positions[reader]
    return log.trunk + log.tail if at == BEGINNING else log.tail[at:]


def moved(log: ChannelLog, reader: int, missing: int = 0) -> ChannelLog:
    """A reader has read to the end, or to some records before it."""
    return _at(log, reader, len(log.tail) - missing)


def restarted(log: ChannelLog, reader: int) -> ChannelLog:
    """A reader starts again from the beginning."""
    return _at(log, reader, BEGINNING)


def aged(log: ChannelLog) -> ChannelLog:
    """One unit later."""
    return _trimmed(replace(log, trunk=_older(log.trunk), tail=_older(log.tail)))


def simplified(log: ChannelLog, newcomers: Newcomers) -> ChannelLog:
    """Without what only those could tell apart who cannot come any more."""
    read = log.positions[-1]  # by the leader
    if newcomers is Newcomers.LEADER or read == BEGINNING:
        return log
    is_awaited = newcomers is Newcomers.AGENTS or BEGINNING in log.positions
    return replace(
        log,
        trunk=tuple(map(_ageless, log.trunk)) if is_awaited else (),
        tail=tuple(map(_ageless, log.tail[:read])) + log.tail[read:],
    )


def _ageless(one: Aged) -> Aged:
    """Times of records are the controller's matter; agents only need the grace of forced ones."""
    is_dated = one.rec.force and one.age <= TAKEOVER_KEPT
    return one if is_dated else one._replace(age=CORE_AGE_MAX)


def _at(log: ChannelLog, reader: int, position: int) -> ChannelLog:
    positions = list(log.positions)
    positions[reader] = position
    return _trimmed(replace(log, positions=tuple(positions)))


def _older(rows: tuple[Aged, ...]) -> tuple[Aged, ...]:
    return tuple(one._replace(age=min(one.age + 1, CORE_AGE_MAX)) for one in rows)


def _trimmed(log: ChannelLog) -> ChannelLog:
    running = [at for at in log.positions if at != BEGINNING]
    read = min(running) if running else len(log.tail)
    return replace(
        log,
        trunk=_compacted(log.trunk + log.tail[:read]),
        tail=log.tail[read:],
        positions=tuple(at if at == BEGINNING else at - read for at in log.positions),
    )


def _compacted(rows: tuple[Aged, ...]) -> tuple[Aged, ...]:
    """The rows from which a new reader comes to the same table, and to the same grace.

    Nothing behind a record that lost is compacted until a later one has healed it
    (`controller.channel.conflict.heals`), as the channel's compaction lag must see to.
    """
    standing: dict[str, int] = {}
    forced: dict[str, int] = {}
    tainted: dict[str, tuple[int, int]] = {}  # from which row on, greatest version that lost
    for at, one in enumerate(rows):
        key, version = one.rec.key, one.rec.version
        if not one.has_won:
            if key in standing:
                since, greatest = tainted.get(key, (standing[key], 0))
                tainted[key] = (since, max(greatest, version))
            continue
        if key in tainted and (not one.rec.state or (one.rec.force and version > tainted[key][1])):
            del tainted[key]
        standing[key] = at
        if not one.rec.state:
            forced.pop(key, None)
            del standing[key]
        elif one.rec.force:
            forced[key] = at
    dated = {at for at in forced.values() if rows[at].age <= TAKEOVER_KEPT}
    uncleaned = {
        at
        for at, one in enumerate(rows)
        if one.rec.key in tainted and at >= tainted[one.rec.key][0]
    }
    return tuple(rows[at] for at in sorted({*standing.values(), *dated, *uncleaned}))


def _row(rec: Rec) -> Row:
    children = dict.fromkeys(rec.children) or None
    return Row(rec.state, rec.version, rec.dst, rec.src, rec.force, children)
