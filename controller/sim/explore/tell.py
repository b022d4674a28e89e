"""A path of events for its reader: what happened, what it put on the channel, who serves then.

Called by `__main__` and by the tests when they fail.
"""

from __future__ import annotations

from controller.sim.explore.bounds import Bounds
from controller.sim.explore.effects import State
from controller.sim.explore.records import text
from controller.sim.explore.search import replay
from controller.sim.explore.times import BROKERS, PARENT
from controller.sim.explore.world import Event, World
from controller.wire.commands import Assign, SplitBundle, Transfer

SENTENCES = {
    "reads": "{who} reads to the end",
    "appends": "{who} appends what waits",
    "closed": "{who} has closed {part}",
    "wakes": "{who} is well again, and reads",
    "paused": "FAULT {who} is paused",
    "mute": "FAULT {who} cannot append",
    "deaf": "FAULT {who} cannot read",
    "crashes": "FAULT {who} is killed and starts again",
    "close hangs": "FAULT {who} hangs in the close of {part}",
    "appends, unacknowledged": "FAULT {who} appends, the acknowledgement is lost",
    "appends, and again later": "FAULT {who} appends, copies of it will come again",
    "appends, late": "FAULT {who} appends, it fails and arrives later",
    "late": "a late copy arrives",
    "decide": "leader decides{order}",
    "decide, short of records": "FAULT leader decides, but misses the last {given} records",
    "decide, short of signs": "FAULT leader decides, but misses the last signs of life",
    "publish": "leader publishes",
    "publish, crash": "FAULT leader publishes, and is killed before it knows",
    "publish, and again later": "FAULT leader publishes, copies of it will come again",
    "recovers": "leader starts again, and finds its batch published",
    "leader pauses": "FAULT leader is paused",
    "leader wakes": "leader wakes up",
    "standby": "FAULT standby leads from now on, with an empty checkpoint",
    "time": "-- one unit of time --",
}


def tell(bounds: Bounds, path: tuple[int, ...]) -> list[str]:
    """The lines of a path, and how it ends."""
    steps, world, end = replay(bounds, path)
    before = world.start()
    lines = []
    for number, (event, state) in enumerate(steps, 1):
        lines.append(f"{number:3} {_sentence(event)}")
        lines += [f"      > {one}" for one in _news(world, before, state)]
        before = state
    return [*lines, f"end: {end}" if end else "end of the path"]


def _sentence(event: Event) -> str:
    who = BROKERS[event.who] if event.who >= 0 else ""
    part = str(event.given).rpartition("/")[2]
    return SENTENCES[event.what].format(who=who, part=part, given=event.given, order=_order(event))


def _order(event: Event) -> str:
    match event.order:
        case Assign():
            return ", a client asks for an owner"
        case Transfer(bundle=bundle, destination=destination):
            what = "it" if bundle == PARENT else "the left child"
            return f", an operator transfers {what} to {destination}"
        case SplitBundle():
            return ", an operator splits it"
    return ""


def _news(world: World, before: State, after: State) -> list[str]:
    parts = world.parts
    old, new = parts.logs[before.log].stands, parts.logs[after.log].stands
    lines = [text(rec) for key, rec in sorted(new.items()) if old.get(key) != rec]
    lines += [f"{key.rpartition('/')[2]} tombstone" for key in sorted(old) if key not in new]
    decided = parts.leaders[after.leader].writes
    if decided and decided != parts.leaders[before.leader].writes:
        lines += [f"(not yet published: {text(write.rec)})" for write in decided]
    for who, broker in enumerate(BROKERS):
        was, serves = (parts.serves(one[1 + who]) for one in (before, after))
        if was != serves:
            names = ", ".join(sorted(name.rpartition("/")[2] for name in serves)) or "nothing"
            lines.append(f"{broker} serves {names}")
    return lines
