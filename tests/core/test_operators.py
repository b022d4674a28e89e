"""Operators' commands: every one is answered, and a refusal says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from controller.core.settings import LogSettings
from controller.core.state import decode_state, encode_state
from controller.wire.commands import (
    Command,
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
from controller.wire.decisions import AnswerRecord
from tests.world import SETTINGS, World, of_broker, replay, serving, world


def told(w: World, command: Command) -> tuple[bool, str]:
    """Sends a command; whether it was accepted, and the problem in words if not."""
    result = w.command(command)
    record = msgspec.json.decode(result.rounds[0], type=AnswerRecord)
    assert record.command is not None
    assert record.command.command == command.__struct_config__.tag
    if record.command.isAccepted:
        assert record.verdicts.counts == {}
        return True, ""
    assert not result.records
    assert record.verdicts.counts == {"invalid_command": 1}
    return False, str(record.verdicts.top[0].inputs["problem"])


def someone(w: World, owner: str = "b0") -> str:
    return min(of_broker(w, owner))


def test_an_accepted_command_is_repeated_in_its_answer() -> None:
    w = serving(world(brokers=3, bundles=12))
    bundle = someone(w)
    w.command(Transfer(bundle=bundle, destination="b1", who="ann", why="hot", id="42"))
    record = msgspec.json.decode(w.results[-1].rounds[0])

    assert record["command"] == {
        "command": "transfer",
        "isAccepted": True,
        "subject": bundle,
        "id": "42",
        "who": "ann",
        "why": "hot",
    }
    assert [d["kind"] for d in record["plan"]["decisions"]] == ["transfer"]


@pytest.mark.parametrize(
    "command",
    [Drain(broker="b0"), Pause(), Resume(), Pin(bundle="t/n/0x00000000_0x15555555")],
)
def test_a_command_that_writes_nothing_is_answered_too(command: Command) -> None:
    w = serving(world(brokers=3, bundles=12))
    assert told(w, command) == (True, "")
    assert w.results[-1].records == ()


def test_answers_between_rounds_that_nobody_asked_for_repeat_no_command() -> None:
    w = serving(world(brokers=2, bundles=4))
    lines = [r for result in w.results for r in result.rounds if b'"answer"' in r]

    assert lines
    assert not any(b'"command"' in line for line in lines)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Drain(broker="b00"), ["b00 is not known", "did you mean b0?"]),
        (Drain(broker="zzzzz"), ["zzzzz is not known"]),
        (Undrain(broker="b0"), ["b0 is not draining"]),
        (Pin(bundle="t/x/0x00000000_0xffffffff"), ["t/x/0x00000000_0xffffffff is not known"]),
        (Pin(bundle="t/n/0x00000000_0x15555555", broker="b00"), ["b00 is not known", "b0"]),
        (Unpin(bundle="t/n/0x00000000_0x15555555"), ["is not pinned"]),
        (Pause(untilMs=5), ["untilMs = 5 has passed"]),
        (Transfer(bundle="t/n/0x00000000_0x15555555", destination="b22"), ["did you mean b2?"]),
    ],
)
def test_what_cannot_be_obeyed_is_refused_with_the_problem(
    command: Command, words: list[str]
) -> None:
    w = serving(world(brokers=3, bundles=12))
    accepted, problem = told(w, command)

    assert not accepted
    assert all(word in problem for word in words), problem


def test_nothing_is_transferred_to_a_broker_that_drains_leaves_or_is_gone() -> None:
    w = serving(world(brokers=5, bundles=20))
    bundle = someone(w)
    w.command(Pause())  # so that nothing is evacuated meanwhile
    w.command(Drain(broker="b1"))
    w.status["b2"] = "leaving"
    w.stop("b3")
    w.silent.add("b4")
    w.run(3_000)

    for broker, word in (
        ("b1", "draining; undrain it first"),
        ("b2", "leaving"),
        ("b3", "gone"),
        ("b4", "not alive"),
    ):
        accepted, problem = told(w, Transfer(bundle=bundle, destination=broker))
        assert not accepted
        assert word in problem


def test_a_pinned_bundle_moves_only_to_its_broker_and_is_not_split() -> None:
    w = serving(world(brokers=3, bundles=12))
    bundle = someone(w)
    assert told(w, Pin(bundle=bundle, who="ann"))[0]
    for command in (
        Transfer(bundle=bundle, destination="b1"),
        Unload(bundle=bundle),
        SplitBundle(bundle=bundle),
    ):
        accepted, problem = told(w, command)
        assert not accepted
        assert problem == f"bundle {bundle} is pinned to b0 by ann; unpin it first"
    w.command(Pause())  # so that the pin itself moves nothing
    assert told(w, Pin(bundle=bundle, broker="b2"))[0]
    assert told(w, Transfer(bundle=bundle, destination="b2"))[0]
    w.run(500)
    assert w.owners[bundle] == "b2"
    assert told(w, Unpin(bundle=bundle))[0]
    assert told(w, Unload(bundle=bundle))[0]


def test_a_bundle_that_nobody_owns_is_pinned_only_to_a_named_broker() -> None:
    w = world(brokers=2, bundles=2)
    w.silent = {"b0"}
    w.run(1_500)
    w.silent = {"b0", "b1"}
    w.run(4_000)
    w.ask(list(w.bundles))
    bundle = min(w.bundles)
    accepted, problem = told(w, Pin(bundle=bundle))

    assert not accepted
    assert "name the broker" in problem
    assert told(w, Pin(bundle=bundle, broker="b1"))[0]


def test_drains_and_pins_are_bounded() -> None:
    log = LogSettings(drains_max=1, pins_max=1)
    w = serving(world(brokers=3, bundles=12, log=log))
    first, second = sorted(of_broker(w, "b0"))[:2]

    assert told(w, Drain(broker="b1"))[0]
    assert told(w, Drain(broker="b1"))[0]  # again: nothing more is remembered
    assert "1 brokers are draining already" in told(w, Drain(broker="b2"))[1]
    assert told(w, Pin(bundle=first))[0]
    assert "1 bundles are pinned already" in told(w, Pin(bundle=second))[1]


def test_standing_orders_survive_the_blob_and_an_older_blob_is_valid() -> None:
    w = serving(world(brokers=3, bundles=12))
    w.command(Drain(broker="b1", who="ann", why="disks"))
    w.command(Pin(bundle=someone(w), who="bob"))
    w.command(Pause(who="cy"))
    back = decode_state(encode_state(w.state), w.settings)
    assert back.memory == w.state.memory

    later = ("pause", "drains", "pins", "tainted", "losses", "losses_more")
    header = {k: v for k, v in msgspec.to_builtins(w.state.memory).items() if k not in later}
    old = msgspec.convert(header, type(w.state.memory))
    assert (old.drains, old.pins, old.tainted, old.losses, old.pause) == ({}, {}, {}, [], None)


def test_who_paused_and_why_stands_in_the_rounds() -> None:
    w = serving(world(brokers=2, bundles=4))
    w.command(Pause(untilMs=w.now_ms + 3_000, who="ann", why="release"))
    w.run(1_500)
    paused = next(v for v in w.rounds[-1]["verdicts"]["top"] if v["reason"] == "paused")

    assert paused["inputs"] == {"who": "ann", "why": "release"}
    assert "it is resumed, or" in paused["flipsIf"]
    assert w.results[-1].snapshot.mode == "paused"
    w.run(3_000)
    assert w.results[-1].snapshot.mode == "act"
    assert w.state.memory.pause is None


def test_accepted_and_refused_commands_are_counted() -> None:
    w = serving(world(brokers=2, bundles=4))
    w.command(Drain(broker="b0"))
    w.command(Drain(broker="nobody"))
    counters = w.results[-1].snapshot.counters

    assert (counters["commands_accepted"], counters["commands_refused"]) == (1, 1)


def test_a_pause_does_not_switch_safe_mode_off() -> None:
    """A pause stops balancing; it must not let silent brokers be taken for dead."""
    w = serving(world(brokers=4, bundles=16))
    w.command(Pause())
    w.silent |= {"b0", "b1", "b2"}
    w.run(20_000)

    assert w.rounds[-1]["mode"] == "safe_mode"
    assert not [d for d in w.decisions if d["kind"] == "override"]


def test_a_broker_cools_down_by_moves_but_not_by_assignments() -> None:
    """Else a batch that holds two requests would be answered otherwise than two batches."""
    actions = replace(SETTINGS.actions, broker_cooldown_ms=2_000)
    w = serving(world(brokers=3, bundles=12, actions=actions))
    w.brokers["b1"] *= 20.0  # takes several in a row
    w.run(20_000)
    more = {f"t/m/0x{n}0000000_0x{n}8000000": 10.0 for n in range(3)}
    w.bundles.update(more)
    w.ask(more)
    w.run(500)

    assert {w.owners[bundle] for bundle in more} == {"b1"}
    assert replay(w.log, list(range(1, len(w.log))), w.settings) == replay(w.log, [], w.settings)


@pytest.mark.parametrize("parity", [False, True])
def test_broker_ids_that_end_alike_are_two_brokers(parity: bool) -> None:
    """Pulsar refuses a transfer from `xb1` to `b1`: it compares the ends of the ids."""
    w = world(brokers=2, bundles=8, parity=parity)
    w.brokers["xb1"] = w.brokers["b1"]
    w = serving(World(w.brokers, w.bundles, w.settings))
    bundle = min(w.owners)
    if w.owners[bundle] != "xb1":
        assert told(w, Transfer(bundle=bundle, destination="xb1")) == (True, "")
        w.run(1_000)
    accepted, problem = told(w, Transfer(bundle=bundle, destination="b1"))
    assert accepted is not parity
    assert problem == ("b1 owns it already" if parity else "")
