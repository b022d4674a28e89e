"""The observer over time, the summary, the view, and the end of child processes."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from controller.agent.own_log import OwnLog
from controller.config import ConfigError
from controller.demo.children import Children
from controller.demo.observer import Observer
from controller.demo.plan import make_plan
from controller.demo.run import run_demo
from controller.demo.summary import complaints, in_words, summarize, write_json
from controller.demo.view import Phase, Screen, decision_text, frame, plain_line, sparkline
from controller.transport.embedded import EmbeddedLog
from controller.transport.port import OutRecord
from controller.wire.channel import encode_channel
from tests.agent.builders import CHILDREN, HIGH, LOW, PARENT, data

KEYS = (
    "reports",
    "rounds",
    "transfers",
    "assignments",
    "splits",
    "imbalance_start",
    "imbalance_end",
    "orphan_takeover_s",
    "violations",
)


class Stage:
    """An observer with a clock of its own, a channel, and two brokers' own logs."""

    def __init__(self, home: Path) -> None:
        self.now_ms = 1_000_000.0
        self.log = EmbeddedLog(home / "log.db")
        for topic in ("channel", "decisions"):
            self.log.create_topic(topic, 1)
        self.own = {b: OwnLog(home / "own" / f"{b}.jsonl", b, self.clock) for b in ("b1", "b2")}
        self.observer = Observer(self.log, home / "own", "channel", "decisions", clock=self.clock)

    def clock(self) -> float:
        return self.now_ms

    def loads(self, first: float, second: float) -> None:
        self.own["b1"].write("load", load_ratio=first)
        self.own["b2"].write("load", load_ratio=second)

    def pass_ms(self, ms: float) -> None:
        self.now_ms += ms
        self.observer.update()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.log.close()


NOES = b']},"verdicts":{"counts":{"hit_count":2}}}'


def play(stage: Stage) -> None:
    """Two brokers, one split, one kill, taken over after 8 s; imbalance 1.5, then 1.1."""
    channel = [
        (PARENT, data("Assigning", 1, "b1")),
        (PARENT, data("Owned", 2, "b1")),
        (PARENT, data("Splitting", 3, None, "b1", children=CHILDREN)),
    ]
    stage.log.append([OutRecord("channel", key, encode_channel(value)) for key, value in channel])
    decision = b'{"kind":"split","bundle":"t/ns/x","from":"b1","reason":"topics","detail":"many"}'
    stage.log.append(
        [OutRecord("decisions", None, b'{"type":"round","plan":{"decisions":[' + decision + NOES)]
    )
    stage.own["b1"].write("start")
    stage.own["b2"].write("start")
    stage.own["b1"].write("serve", LOW)
    stage.own["b1"].write("serve", HIGH)
    stage.observer.start()
    stage.loads(0.6, 0.2)
    stage.pass_ms(1_000)
    stage.now_ms += 30_000
    stage.loads(0.44, 0.36)
    stage.pass_ms(1_000)
    stage.pass_ms(1_000)
    stage.observer.died("b1", stage.now_ms)
    stage.now_ms += 8_000
    stage.own["b2"].write("serve", LOW)
    stage.own["b2"].write("serve", HIGH)


def test_the_summary_has_exactly_the_promised_keys(stage: Stage, tmp_path: Path) -> None:
    play(stage)
    stage.observer.update(is_last=True)
    result = summarize(stage.observer)
    write_json(result, tmp_path / "summary.json")
    written = json.loads((tmp_path / "summary.json").read_text())
    assert tuple(written) == KEYS
    assert written["imbalance_start"] == pytest.approx(1.5)
    assert written["imbalance_end"] == pytest.approx(1.1)
    assert written["orphan_takeover_s"] == pytest.approx(8.0)
    assert (written["violations"], written["splits"], written["rounds"]) == (0, 1, 1)
    assert written["reports"] == 4
    assert complaints(result, stage.observer) == []
    assert "within 8.0 s" in " ".join(in_words(result, stage.observer))


def test_a_bad_run_is_told_as_such(stage: Stage) -> None:
    stage.own["b1"].write("serve", LOW)
    stage.own["b2"].write("serve", LOW)
    stage.observer.died("b1", stage.now_ms + 1)
    stage.observer.update(is_last=True)
    stage.now_ms += 100.0
    stage.observer.update(is_last=True)
    result = summarize(stage.observer)
    assert result.violations == 1
    assert "VIOLATIONS" in " ".join(in_words(result, stage.observer))
    found = " ".join(complaints(result, stage.observer))
    assert "violations" in found and "imbalance" in found and "split" in found


def test_a_run_in_which_nothing_happened_has_nulls(stage: Stage) -> None:
    result = summarize(stage.observer)
    assert (result.imbalance_start, result.imbalance_end) == (None, None)
    assert result.orphan_takeover_s is None


def test_lines_are_held_back_until_all_brokers_can_be_put_in_order(stage: Stage) -> None:
    stage.own["b2"].write("serve", LOW)
    stage.observer.update()
    assert stage.observer.service.served() == {}
    stage.pass_ms(stage.observer.settings.settle_ms + 1)
    assert stage.observer.service.served() == {"b2": [LOW]}


def test_the_view_shows_brokers_decisions_and_what_is_in_flight(stage: Stage) -> None:
    play(stage)
    stage.pass_ms(1_000)
    text = io.StringIO()
    console = Console(file=text, width=120, force_terminal=False)
    phase = Phase("balancing", 61.0, 59.0)
    console.print(frame(stage.observer, phase))
    shown = text.getvalue()
    noes = "not done in the last round: hit_count 2"
    for part in ("[1:01, 0:59 left] balancing", "b2", "dead", "Splitting", "topics (many)", noes):
        assert part in shown
    assert "in flight 1" in plain_line(stage.observer, phase)
    assert "split" in decision_text(stage.observer.decisions.last[-1])


def test_without_a_terminal_plain_lines_come_every_few_seconds(stage: Stage) -> None:
    text = io.StringIO()
    with Screen(Console(file=text, force_terminal=False)) as screen:
        for tenth in range(120):
            screen.show(stage.observer, Phase("x" * 200, tenth / 10, None))
        screen.show(stage.observer, Phase("a new clock", 0.0, None))
    assert len(text.getvalue().splitlines()) == 4


def test_the_sparkline_runs_from_perfect_balance_to_its_top() -> None:
    assert sparkline([1.0, 1.6, 9.0]) == "▁██"


def test_no_child_is_left_whatever_happens(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=-1)"
    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt), Children(tmp_path, stop_timeout_s=0.5) as children:
        for name, code in (("stubborn", stubborn), ("nested", nested)):
            child = children.start(name, [sys.executable, "-c", code])
            pids.append(child.process.pid)
        raise KeyboardInterrupt
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)


def test_a_child_that_ends_by_itself_is_found_with_its_last_words(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start(
            "talker", [sys.executable, "-c", "print('why'); raise SystemExit(3)"]
        )
        child.process.wait()
        ended = children.ended()
        assert [each.name for each in ended] == ["talker"]
        assert ended[0].process.returncode == 3
        assert ended[0].tail(1) == ["why"]
        assert children.ended() == []


def test_a_killed_child_is_dead_when_kill_returns(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
        children.kill("sleeper")
        assert child.process.returncode == -signal.SIGKILL


def test_the_plan_has_its_own_log_and_checkpoint_in_its_directory(tmp_path: Path) -> None:
    plan = make_plan(None, tmp_path)
    text = (tmp_path / "demo.toml").read_text()
    assert str(tmp_path / "checkpoint") in text
    assert plan.transport.path == str(tmp_path / "log.db")
    assert plan.topics[plan.channel_topic] == (1, "compact")
    assert plan.job_command[-1] == str(tmp_path / "demo.toml")


def test_a_configuration_of_two_clusters_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text("[clusters.one]\n[clusters.two]\n")
    with pytest.raises(ConfigError, match="one cluster"):
        make_plan(path, tmp_path)


def test_what_an_ended_child_has_started_is_ended_too(tmp_path: Path) -> None:
    orphan = "import subprocess, sys; subprocess.Popen(['sleep', '600'], stdout=2)"
    with Children(tmp_path) as children:
        child = children.start("parent", [sys.executable, "-c", orphan])
        child.process.wait()
        assert [each.name for each in children.ended()] == ["parent"]
    assert _is_group_gone(child.process.pid)


def test_settings_of_the_environment_do_not_reach_the_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUNDLECTL_TRANSPORT__PATH", "/a/real/installation.db")
    monkeypatch.setenv("BUNDLES_OF_SOMEBODY", "kept")
    shown = "import os; print(sorted(k for k in os.environ if k.startswith('BUNDLE')))"
    with Children(tmp_path) as children:
        child = children.start("shown", [sys.executable, "-c", shown])
        child.process.wait()
        assert child.tail(1) == ["['BUNDLES_OF_SOMEBODY']"]


def test_a_summary_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no directory"):
        run_demo(1, summary=tmp_path / "none" / "summary.json", config=tmp_path / "none.toml")


def _is_group_gone(group: int) -> bool:
    """Waits for the init process, which may take a moment to reap what was killed."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
