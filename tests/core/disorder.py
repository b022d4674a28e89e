"""A world in which everything happens that can happen, in an order drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from controller.wire.channel import ServiceUnitState
from controller.wire.commands import (
    Drain,
    Pause,
    Pin,
    Resume,
    SplitBundle,
    Transfer,
    Undrain,
    Unload,
    Unpin,
)
from tests.world import World, owned, replace_state, serving, world

S = ServiceUnitState


def disorder(seed: int, events: int = 120, **more: object) -> World:
    """About a minute of simulated time, two events a second."""
    rng = random.Random(seed)
    w = world(brokers=5, bundles=20, seed=seed, **more)
    w.bundles["pulsar/system/0x00000000_0xffffffff"] = 20.0
    serving(w).run(2_000)
    for _ in range(events):
        EVENTS[rng.choice(sorted(EVENTS))](w, rng)
        w.run(rng.randrange(1_000))
    return w


def _broker(w: World, rng: random.Random) -> str:
    return rng.choice(sorted(w.brokers))


def _bundle(w: World, rng: random.Random) -> str:
    return rng.choice(sorted(w.table))


def _come_back(w: World, rng: random.Random) -> None:
    w.jittery.clear()
    for broker in sorted(w.silent | set(w.status)):
        w.start(broker)


def _stop(w: World, rng: random.Random) -> None:
    if len(w.silent) < 2:
        w.stop(_broker(w, rng))


def _fall_silent(w: World, rng: random.Random) -> None:
    if len(w.silent) < 3:
        w.silent.add(_broker(w, rng))


def _leave(w: World, rng: random.Random) -> None:
    broker = _broker(w, rng)
    if broker not in w.silent:
        w.status[broker] = "leaving"


def _heat(w: World, rng: random.Random) -> None:
    w.bundles[_bundle(w, rng)] = rng.choice((5.0, 500.0, 20_000.0, 60_000.0))


def _old_record(w: World, rng: random.Random) -> None:
    """A record of the channel is delivered once more."""
    records = [r for r in w.log if r.topic == w.settings.channel_topic]
    again = rng.choice(records)
    w.append(w.settings.channel_topic, again.key, again.value)


def _interference(w: World, rng: random.Random) -> None:
    """Somebody else writes a forced record, or one that skips a version."""
    bundle = _bundle(w, rng)
    old = w.table[bundle]
    version = 1 if old is None else old.versionId + rng.choice((1, 1, 2, 7))
    w.channel(bundle, owned(_broker(w, rng), version, w.now_ms, force=rng.random() < 0.5))


def _race(w: World, rng: random.Random) -> None:
    """An operator's move is decided, and somebody else takes its version first."""
    bundle = _bundle(w, rng)
    w.command(Unload(bundle=bundle))
    old = w.table[bundle]
    if old is not None:
        w.channel(bundle, owned(_broker(w, rng), old.versionId + 1, w.now_ms, force=True))


def _free(w: World, rng: random.Random) -> None:
    bundle = _bundle(w, rng)
    old = w.table[bundle]
    if old is not None:
        w.channel(bundle, replace_state(old, S.Free, w.now_ms))


def _nobody(w: World, rng: random.Random) -> None:
    """An Owned record that names no owner."""
    bundle = _bundle(w, rng)
    old = w.table[bundle]
    version = 1 if old is None else old.versionId + 1
    nobody = owned(None, version, w.now_ms, sourceBroker=_broker(w, rng), force=True)
    w.channel(bundle, nobody)


EVENTS: dict[str, Callable[[World, random.Random], object]] = {
    "ask": lambda w, r: w.ask([_bundle(w, r), f"t/m{r.randrange(9)}/0x00000000_0xffffffff"]),
    "come back": _come_back,
    "drain": lambda w, r: w.command(Drain(broker=_broker(w, r), who="ann", why="test")),
    "fall silent": _fall_silent,
    "forced": _interference,
    "free": _free,
    "heat": _heat,
    "jitter": lambda w, r: w.jittery.add(_broker(w, r)),
    "junk": lambda w, r: w.append(w.settings.channel_topic, _bundle(w, r), b'{"state":7}'),
    "leave": _leave,
    "nobody": _nobody,
    "nothing": lambda w, r: None,
    "old record": _old_record,
    "pause": lambda w, r: w.command(Pause(untilMs=w.now_ms + 2_500, who="bob")),
    "pin": lambda w, r: w.command(Pin(bundle=_bundle(w, r), broker=_broker(w, r))),
    "race": _race,
    "refuse": lambda w, r: setattr(w, "refuse", lambda bundle: "1" in bundle),
    "refuse no more": lambda w, r: setattr(w, "refuse", lambda bundle: False),
    "resume": lambda w, r: w.command(Resume()),
    "split": lambda w, r: w.command(SplitBundle(bundle=_bundle(w, r))),
    "stop": _stop,
    "tombstone": lambda w, r: w.channel(_bundle(w, r), None),
    "transfer": lambda w, r: w.command(Transfer(bundle=_bundle(w, r), destination=_broker(w, r))),
    "undrain": lambda w, r: w.command(Undrain(broker=_broker(w, r))),
    "unload": lambda w, r: w.command(Unload(bundle=_bundle(w, r))),
    "unpin": lambda w, r: w.command(Unpin(bundle=_bundle(w, r))),
}
