"""Commands: round trips and every reason to reject one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.wire.commands import (
    Assign,
    Command,
    Drain,
    Pause,
    Pin,
    Refused,
    Resume,
    SplitBundle,
    Tick,
    Transfer,
    Undrain,
    Unload,
    Unpin,
    decode_command,
    encode_command,
)
from controller.wire.rejects import REASONS, WireError

BUNDLE = "t/n/0x00000000_0x80000000"

COMMANDS: dict[str, Command] = {
    "tick": Tick(),
    "assign": Assign(bundle=BUNDLE, requestedBy="b1"),
    "refused": Refused(bundle=BUNDLE, versionId=4, decisionId="d", reason="destination died"),
    "transfer": Transfer(bundle=BUNDLE, destination="b2", who="ann", why="test", id="7"),
    "unload": Unload(bundle=BUNDLE),
    "split": SplitBundle(bundle=BUNDLE, boundaries=[1, 2]),
    "drain": Drain(broker="b1", who="ann", why="new disks"),
    "undrain": Undrain(broker="b1"),
    "pin": Pin(bundle=BUNDLE, broker="b2"),
    "unpin": Unpin(bundle=BUNDLE),
    "pause": Pause(untilMs=5),
    "resume": Resume(),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_survive_a_round_trip(name: str) -> None:
    value = encode_command(COMMANDS[name])
    assert json.loads(value)["command"] == name
    assert decode_command(value) == COMMANDS[name]


def test_absent_members_are_left_out() -> None:
    assert json.loads(encode_command(Unload(bundle=BUNDLE))) == {
        "command": "unload",
        "bundle": BUNDLE,
    }


def test_unknown_members_are_ignored() -> None:
    assert decode_command(b'{"command": "tick", "colour": "red"}') == Tick()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"command": "dance"}, ("unknown_command", "command")),
        ({}, ("unknown_command", "command")),
        ({"command": 3}, ("unknown_command", "command")),
        ([], ("wrong_type", None)),
        ({"command": "unload"}, ("missing_field", "bundle")),
        ({"command": "unload", "bundle": 3}, ("wrong_type", "bundle")),
        ({"command": "unload", "bundle": "t/n"}, ("bad_name", "bundle")),
        ({"command": "unload", "bundle": "t" * 2000}, ("absurd_value", "bundle")),
        ({"command": "unload", "bundle": BUNDLE, "why": "x" * 2000}, ("absurd_value", "why")),
        ({"command": "transfer", "bundle": BUNDLE, "destination": " "},
         ("bad_name", "destination")),
        ({"command": "split", "bundle": BUNDLE, "boundaries": [-1]},
         ("negative", "boundaries[0]")),
        ({"command": "split", "bundle": BUNDLE, "boundaries": [2**32]},
         ("absurd_value", "boundaries[0]")),
        ({"command": "split", "bundle": BUNDLE, "boundaries": [1] * 2000},
         ("absurd_value", "boundaries")),
        ({"command": "drain"}, ("missing_field", "broker")),
        ({"command": "drain", "broker": ""}, ("bad_name", "broker")),
        ({"command": "undrain", "broker": "b" * 2000}, ("absurd_value", "broker")),
        ({"command": "pin", "bundle": BUNDLE, "broker": " "}, ("bad_name", "broker")),
        ({"command": "unpin", "bundle": "t/n"}, ("bad_name", "bundle")),
        ({"command": "pause", "untilMs": -1}, ("negative", "untilMs")),
        ({"command": "pause", "untilMs": 1e999}, ("not_finite", "untilMs")),
    ],
)  # fmt: skip
def test_every_reason_to_reject(document: Any, expected: tuple[str, str | None]) -> None:
    with pytest.raises(WireError) as caught:
        decode_command(json.dumps(document).encode())
    assert (caught.value.reason, caught.value.field) == expected


def test_a_null_value_is_no_command() -> None:
    with pytest.raises(WireError, match="unknown_command"):
        decode_command(None)


@given(st.sampled_from(sorted(COMMANDS)), st.data())
@settings(print_blob=True, deadline=None)
def test_bent_bytes_give_a_command_or_a_wire_error(name: str, data: st.DataObject) -> None:
    value = encode_command(COMMANDS[name])
    at = data.draw(st.integers(0, len(value) - 1))
    value = value[:at] + data.draw(st.binary(max_size=4)) + value[at + 1 :]
    try:
        decode_command(value)
    except WireError as error:
        assert error.reason in REASONS
        assert error.detail
