from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from controller.cli.amounts import boundaries_in, bundle_of, duration_ms, moment_ms
from controller.cli.main import app
from controller.model.bundles import HashRange
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.transport.recent import recent_keys
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel
from controller.wire.commands import Command, SetPolicies, Transfer, decode_command
from tests.cli.core_process import Controller
from tests.streaming.worlds import load_report, new_log, plan, settings

BUNDLE = "t/n/0x40000000_0x80000000"
MINUTE_MS = 60_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Two brokers that report, and a bundle that the first one owns."""
    log = new_log(plan(tmp_path))
    owned = ServiceUnitStateData(
        state=ServiceUnitState.Owned, dstBroker="b1", timestamp=1, versionId=1
    )
    log.append([OutRecord("bundle-state-east", BUNDLE, encode_channel(owned))])
    log.append([load_report("east", broker, 1) for broker in ("b1", "b2")])
    (tmp_path / "job.toml").write_text(
        f'[transport]\npath = "{tmp_path}/log.db"\n[clusters.east]\n'
    )
    yield log
    log.close()


@pytest.fixture
def controller(tmp_path: Path, log: EmbeddedLog) -> Iterator[Controller]:
    with Controller(tmp_path / "log.db", settings("east")) as running:
        yield running


def send(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["send", *arguments, "--config", str(tmp_path / "job.toml")])


def sent(log: EmbeddedLog) -> list[Command]:
    """Commands of operators, in order."""
    found = [decode_command(r.value) for r in log.read("controller-commands", 0, 0, 1_000)]
    return [one for one in found if one.id is not None]


def test_a_transfer_is_sent_signed_and_its_answer_printed(
    tmp_path: Path, log: EmbeddedLog, controller: Controller
) -> None:
    done = send(tmp_path, "transfer", BUNDLE, "b2", "--who", "ann", "--why", "hot")
    assert done.exit_code == 0, done.output
    first, second, third = done.stdout.splitlines()
    [command] = sent(log)
    assert isinstance(command, Transfer)
    assert (command.bundle, command.destination) == (BUNDLE, "b2")
    assert (command.who, command.why) == ("ann", "hot")
    assert first == f"transfer: sent to east by ann, id {command.id}"
    assert (second, third) == ("accepted", f"  transfer {BUNDLE} from b1 to b2 (version 2)")
    assert [r.key for r in log.read("controller-commands", 0, 0, 9)] == ["east/ann"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["unload", BUNDLE],
        ["split", BUNDLE],
        ["split", BUNDLE, "--at", "0x50000000", "--at", "1610612736"],
        ["drain", "b1"],
        ["pin", BUNDLE],
        ["pin", BUNDLE, "b1"],
        ["pause"],
        ["pause", "--for", "10m"],
        ["pause", "--until", "2100-01-01T00:00"],
        ["resume"],
    ],
)
def test_every_command_is_accepted(
    tmp_path: Path, controller: Controller, log: EmbeddedLog, arguments: list[str]
) -> None:
    done = send(tmp_path, *arguments, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["outcome"] == "accepted" and answer["command"]["command"] == arguments[0]
    [command] = sent(log)
    assert (command.id, command.why) == (answer["id"], None)
    assert "@" in (command.who or "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["transfer", BUNDLE, "b1"], "owns it already"),
        (["unload", "t/n/0x00000000_0x40000000"], "is not known"),
        (["transfer", BUNDLE, "b9", "--force"], "b9 is not known"),
        (["unpin", BUNDLE], "pin"),
        (["undrain", "b2"], "drain"),
    ],
)
def test_what_the_controller_refuses_is_printed_and_status_1(
    tmp_path: Path, controller: Controller, arguments: list[str], problem: str
) -> None:
    done = send(tmp_path, *arguments)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[1].startswith("refused: ") and problem in done.stdout


def test_without_a_controller_there_is_no_answer(tmp_path: Path, log: EmbeddedLog) -> None:
    done = send(tmp_path, "unload", BUNDLE, "--wait", "200ms")
    assert done.exit_code == 3 and "is the controller running?" in done.stdout
    assert len(sent(log)) == 1
    at_once = send(tmp_path, "unload", BUNDLE, "--no-wait")
    assert at_once.exit_code == 0 and len(sent(log)) == 2


def test_an_observing_controller_decides_and_does_nothing(tmp_path: Path, log: EmbeddedLog) -> None:
    with Controller(tmp_path / "log.db", settings("east"), is_observing=True):
        done = send(tmp_path, "unload", BUNDLE)
    assert done.exit_code == 1
    assert "unpublished: observing" in done.stdout and "only observes" in done.stdout


def test_a_controller_that_cannot_read_it_is_an_answer_too(
    tmp_path: Path, controller: Controller
) -> None:
    done = send(tmp_path, "pause", "--why", "x" * 5_000)
    assert done.exit_code == 1 and "cannot read it (absurd_value" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        (["transfer", BUNDLE, "b3"], 1, "did you mean"),
        (["drain", "nobody"], 1, "--force sends it all the same"),
        (["unload", "t/n/0x40000000_0x8000000G"], 2, "write tenant/namespace"),
        (["unload", "t/n/0X40000000_0x8000_0000"], 2, "not a bundle name"),
        (["unload", "t/n/0x40000000_0X80000000"], 2, f"did you mean {BUNDLE}?"),
        (["split", BUNDLE, "--at", "0x40000000"], 2, "strictly inside"),
        (["split", BUNDLE, "--at", "half"], 2, "strictly inside"),
        (["split", "t/n/0x00000000_0x00000001"], 2, "too narrow"),
        (["pause", "--for", "10"], 2, "write 90s, 10m or 1h30m"),
        (["pause", "--for", "1m", "--until", "2100-01-01"], 2, "not both"),
        (["pause", "--until", "2001-01-01"], 2, "is past"),
        (["resume", "--cluster", "eats"], 1, "did you mean 'east'?"),
        (["resume", "--wait", "soon"], 2, "no duration"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(
    tmp_path: Path, log: EmbeddedLog, arguments: list[str], status: int, hint: str
) -> None:
    done = send(tmp_path, *arguments)
    assert done.exit_code == status, done.output
    text = " ".join(done.stderr.replace("│", " ").split())
    assert hint in text
    assert sent(log) == []


def test_the_cluster_must_be_named_if_there_are_several(tmp_path: Path, log: EmbeddedLog) -> None:
    with (tmp_path / "job.toml").open("a") as file:
        file.write("[clusters.west]\n")
    assert send(tmp_path, "resume", "--no-wait").exit_code == 2
    assert send(tmp_path, "resume", "--no-wait", "--cluster", "west").exit_code == 0
    [record] = log.read("controller-commands", 0, 0, 9)
    assert (record.key or "").startswith("west/")


def test_sending_never_creates_a_log(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    (tmp_path / "job.toml").write_text(f'[transport]\npath = "{path}"\n')
    assert send(tmp_path, "resume").exit_code == 1
    assert not path.exists()


def test_durations_and_moments() -> None:
    assert [duration_ms(t) for t in ("90s", "1h30m", "500ms", "2d")] == [
        90_000,
        90 * MINUTE_MS,
        500,
        2 * 24 * 60 * MINUTE_MS,
    ]
    assert moment_ms("1970-01-01T00:01", 0) == MINUTE_MS, "UTC unless it says otherwise"
    assert moment_ms("1970-01-01T01:01+01:00", 0) == MINUTE_MS
    with pytest.raises(typer.BadParameter):
        moment_ms("tomorrow", 0)


def test_boundaries_and_names() -> None:
    range_ = HashRange(0, 0x80000000)
    assert boundaries_in(range_, ["0x40000000", "16"]) == [16, 0x40000000]
    assert boundaries_in(range_, []) is None
    with pytest.raises(typer.BadParameter, match="twice"):
        boundaries_in(range_, ["16", "0x10"])
    assert str(bundle_of(BUNDLE)) == BUNDLE


def test_recent_keys_are_those_of_the_last_records_of_each_partition(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log.db")
    log.create_topic("t", 2)
    log.append([OutRecord("t", f"k{n}", b"v") for n in range(100)])
    log.append([OutRecord("t", "last", None), OutRecord("t", None, b"v")])
    assert recent_keys(log, "t", 1_000) == {f"k{n}" for n in range(100)} | {"last"}
    few = recent_keys(log, "t", 3)
    assert "last" in few and len(few) <= 6


def test_the_id_is_new_for_each_command(tmp_path: Path, log: EmbeddedLog) -> None:
    for _ in range(5):
        send(tmp_path, "resume", "--no-wait")
    assert len({one.id for one in sent(log)}) == 5


def test_a_key_is_set_by_our_name_or_by_pulsars(
    tmp_path: Path, log: EmbeddedLog, controller: Controller
) -> None:
    done = send(tmp_path, "set", "balance.shed", "transfer", "--why", "trial")
    assert done.exit_code == 0 and "accepted" in done.stdout, done.output
    theirs = send(tmp_path, "set", "loadBalancerSheddingConditionHitCountThreshold", "1")
    assert theirs.exit_code == 0, theirs.output
    back = send(tmp_path, "unset", "balance.shed")
    assert back.exit_code == 0, back.output
    keys = [(type(one).__name__, one.key, getattr(one, "value", None)) for one in sent(log)]
    assert keys == [
        ("SetKey", "balance.shed", "transfer"),
        ("SetKey", "balance.transfer.hit_count", 2),
        ("UnsetKey", "balance.shed", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["balance.shed", "best"], "is no strategy"),
        (["balance.avg.hit_count_low", "0"], "must be at least 1"),
        (["job.trigger_ms", "100"], "cannot be set while the job runs"),
        (["minUnloadMessage", "10"], "name the one that is meant"),
        (["lowerBoundarySheddingEnabled", "true"], "is not dynamic in Pulsar"),
    ],
)
def test_a_key_that_cannot_be_set_is_not_sent(
    tmp_path: Path, log: EmbeddedLog, arguments: list[str], problem: str
) -> None:
    done = send(tmp_path, "set", *arguments)
    assert done.exit_code == 2
    assert problem in " ".join(done.stderr.replace("│", " ").split())
    assert sent(log) == []


def test_policies_are_sent_from_a_file_and_accepted(
    tmp_path: Path, log: EmbeddedLog, controller: Controller
) -> None:
    file = tmp_path / "policies.json"
    gold = {"name": "gold", "namespaces": ["gold/.*"], "primary": ["b1"], "minLimit": 2}
    file.write_text(json.dumps({"isolation": [gold]}))
    done = send(tmp_path, "policies", str(file), "--who", "ann", "--why", "own brokers")
    assert done.exit_code == 0 and done.stdout.splitlines()[1] == "accepted", done.output
    [command] = sent(log)
    assert isinstance(command, SetPolicies)
    assert (command.who, command.why) == ("ann", "own brokers")
    [policy] = command.policies.isolation
    assert (policy.name, policy.primary, policy.minLimit) == ("gold", ("b1",), 2)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{", "holds no policies"),
        ('{"isolated": []}', "unknown field `isolated`"),
        ('{"isolation": [{"name": "p", "namespaces": ["t/("], "primary": ["b"]}]}', "isolation"),
        ('{"isolation": [{"name": "p", "namespaces": ["n"], "primary": []}]}', "length >= 1"),
    ],
)
def test_policies_that_cannot_be_used_are_not_sent(
    tmp_path: Path, log: EmbeddedLog, text: str, hint: str
) -> None:
    file = tmp_path / "policies.json"
    file.write_text(text)
    done = send(tmp_path, "policies", str(file))
    assert done.exit_code == 1
    assert hint in " ".join(done.stderr.split())
    assert send(tmp_path, "policies", str(tmp_path / "none.json")).exit_code == 2
    assert sent(log) == []
