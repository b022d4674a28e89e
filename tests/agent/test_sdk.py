"""What docs/broker-sdk.md promises to somebody who brings a broker."""

from __future__ import annotations

import ast
import inspect
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from controller.agent.contract import BrokerContract
from controller.agent.port import Broker
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.channel import ServiceUnitStateData, decode_channel, encode_channel
from controller.wire.limits import WireLimits
from controller.wire.reports import Report, decode_report
from tests.agent.builders import LOW, data
from tests.agent.example import EXAMPLE

GUIDE = EXAMPLE.with_name("broker-sdk.md")
METHODS = [name for name in vars(Broker) if not name.startswith("_")]


class Watched:
    """The log that the example uses, and the test as its controller."""

    def __init__(self, path: Path) -> None:
        self.log = EmbeddedLog(path)
        for topic in ("bundle-state-c", "load-reports", "controller-commands"):
            self.log.create_topic(topic, 1)

    def write(self, record: ServiceUnitStateData) -> None:
        self.log.append([OutRecord("bundle-state-c", LOW, encode_channel(record))])

    def last(self) -> tuple[str, int] | None:
        rows = self.log.read("bundle-state-c", 0, 0, 100)
        unit = decode_channel(rows[-1].value) if rows else None
        return None if unit is None else (unit.state.value, unit.versionId)

    def report(self, kind: str) -> Report | None:
        rows = self.log.read("load-reports", 0, 0, 10_000)
        found = [decode_report(row.value, "b1", "c", WireLimits()) for row in rows]
        return next((one for one in reversed(found) if one.kind == kind), None)


def _until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


def test_the_example_serves_what_it_is_assigned_and_leaves_when_it_is_asked(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path / "log.db")
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "log.db"), "c", "b1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        watched.write(data("Assigning", 1, "b1"))
        _until(lambda: watched.last() == ("Owned", 2), "the assignment is answered")
        _until(
            lambda: (found := watched.report("full")) is not None and found.bundle_names == [LOW],
            "the bundle is served and reported",
        )
        process.send_signal(signal.SIGTERM)
        _until(
            lambda: (
                (found := watched.report("heartbeat")) is not None and found.status == "leaving"
            ),
            "it wants to leave",
        )
        assert process.poll() is None
        watched.write(data("Releasing", 3, "b2", "b1"))
        assert process.wait(timeout=20) == 0
        assert watched.last() == ("Assigning", 4)
        last = watched.report("heartbeat")
        assert last is not None and last.status == "gone"
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        watched.log.close()


def test_the_example_is_short() -> None:
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 60
    ast.parse(EXAMPLE.read_text())


def test_the_guide_speaks_of_every_method_and_every_test_of_the_contract() -> None:
    guide = GUIDE.read_text()
    for method in METHODS:
        assert f"`{method}" in guide, method
        assert inspect.getdoc(getattr(Broker, method)), method
    for error in ("BrokerError", "BoundariesChangedError", "BrokerContract"):
        assert error in guide
    assert inspect.getdoc(BrokerContract)


def test_settings_that_the_guide_names_exist() -> None:
    named = set(re.findall(r"`(\w+_(?:ms|max|threads|above))`", GUIDE.read_text()))
    known = (EXAMPLE.parents[1] / "conf" / "embedded.toml").read_text()
    assert named and all(f"\n{name} = " in known for name in named), named
