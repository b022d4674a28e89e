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
    SetPolicies,
    SplitBundle,
    Tick,
    Transfer,
    Undrain,
    Unload,
    Unpin,
    decode_command,
    encode_command,
)
from controller.wire.policies import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PolicySet,
    problem_of,
)
from controller.wire.rejects import REASONS, WireError

BUNDLE = "t/n/0x00000000_0x80000000"

POLICIES = PolicySet(
    isolation=(
        IsolationPolicy(
            name="gold", namespaces=("gold/.*",), primary=("b[12]",), secondary=("b3",)
        ),
    ),
    antiAffinity=(AntiAffinityGroup(group="g", namespaces=("t/a", "t/b")),),
    failureDomains=(FailureDomain(name="rack-1", brokers=("b1", "b2")),),
)

COMMANDS: dict[str, Command] = {
    "tick": Tick(),
    "assign": Assign(bundle=BUNDLE, requestedBy="b1", topics="persistent"),
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
    "policies": SetPolicies(policies=POLICIES, who="ann"),
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
        ({"command": "assign", "bundle": BUNDLE, "requestedBy": "b", "topics": "both"},
         ("absurd_value", "topics")),
        ({"command": "drain"}, ("missing_field", "broker")),
        ({"command": "drain", "broker": ""}, ("bad_name", "broker")),
        ({"command": "undrain", "broker": "b" * 2000}, ("absurd_value", "broker")),
        ({"command": "pin", "bundle": BUNDLE, "broker": " "}, ("bad_name", "broker")),
        ({"command": "unpin", "bundle": "t/n"}, ("bad_name", "bundle")),
        ({"command": "policies"}, ("missing_field", "policies")),
        ({"command": "policies", "policies": {"isolated": []}}, ("wrong_type", "policies")),
        ({"command": "policies", "policies": {"isolation": [{"name": "p", "primary": ["b"]}]}},
         ("missing_field", "policies.isolation[0].namespaces")),
        ({"command": "policies", "policies": {"isolation": [
            {"name": "p", "namespaces": [], "primary": ["b"]}]}},
         ("absurd_value", "policies.isolation[0].namespaces")),
        ({"command": "policies", "policies": {"isolation": [
            {"name": "p", "namespaces": ["n" * 257], "primary": ["b"]}]}},
         ("absurd_value", "policies.isolation[0].namespaces[0]")),
        ({"command": "policies", "policies": {"isolation": [
            {"name": "p", "namespaces": ["n"], "primary": ["b"], "minLimit": -1}]}},
         ("negative", "policies.isolation[0].minLimit")),
        ({"command": "policies", "policies": {"failureDomains": [
            {"name": "d", "brokers": ["b"] * 1001}]}},
         ("absurd_value", "policies.failureDomains[0].brokers")),
        ({"command": "pause", "untilMs": -1}, ("negative", "untilMs")),
        ({"command": "pause", "untilMs": 1e999}, ("not_finite", "untilMs")),
    ],
)  # fmt: skip
def test_every_reason_to_reject(document: Any, expected: tuple[str, str | None]) -> None:
    with pytest.raises(WireError) as caught:
        decode_command(json.dumps(document).encode())
    assert (caught.value.reason, caught.value.field) == expected


def isolation(pattern: str, name: str = "p") -> IsolationPolicy:
    return IsolationPolicy(name=name, namespaces=("t/n",), primary=(pattern,))


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        (POLICIES, None),
        (PolicySet(), None),
        (PolicySet(isolation=(isolation(r"b\d{1,3}\.eu\(x\)+"), isolation("[)+]", "q"))), None),
        (PolicySet(isolation=(isolation("b("),)), "policy p: 'b(' is no regular expression"),
        (PolicySet(isolation=(isolation("(a+)+"),)), "'(a+)+' repeats a group"),
        (PolicySet(isolation=(isolation("(a|aa){9}"),)), "repeats a group"),
        (PolicySet(isolation=(isolation(".*a.*a.*a.*a.*b"),)), "more than 4 of * + {"),
        (PolicySet(isolation=(isolation("b"), isolation("c"))), "policy 'p' is given twice"),
        (PolicySet(antiAffinity=(AntiAffinityGroup(group="g", namespaces=("t/a",)),
                                 AntiAffinityGroup(group="h", namespaces=("t/a",)))),
         "'t/a' is given twice"),
        (PolicySet(failureDomains=(FailureDomain(name="d", brokers=("b1", "b1")),)),
         "'b1' is given twice"),
    ],
)  # fmt: skip
def test_policies_that_cannot_be_used_say_why(policies: PolicySet, problem: str | None) -> None:
    found = problem_of(policies)
    assert (found is None) if problem is None else (problem in (found or ""))


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
