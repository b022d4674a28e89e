"""Every golden scenario of Pulsar's own classes, decided alike with `parity`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.decide.run import RUNNERS, decide_lines
from tests.golden_scenarios import FOLDER, differing, load

Json = dict[str, Any]
SCENARIOS = {name: 250 if name == "TransferShedder" else 150 for name in RUNNERS}
# A golden placement says nothing of the draw itself.
OF_THE_DRAW = ("inBest",)


def answers(rows: list[Json], *, parity: bool) -> list[Json]:
    lines = [json.dumps(row["in"]).encode() for row in rows]
    return [json.loads(outcome.answer) for outcome in decide_lines(lines, parity=parity)]


def differences(row: Json, answer: Json) -> list[tuple[int, list[str]]]:
    """(tick, members) that differ, and the number of ticks if that does."""
    golden = row["out"]["ticks"]
    if "error" in answer or len(answer["ticks"]) != len(golden):
        return [(-1, [answer.get("error", "ticks")])]
    found = [
        (at, differing(g, a)) for at, (g, a) in enumerate(zip(golden, answer["ticks"], strict=True))
    ]
    return [(at, members) for at, members in found if set(members) - set(OF_THE_DRAW)]


@pytest.mark.parametrize("name", RUNNERS)
def test_every_scenario_is_decided_as_pulsar_does(name: str) -> None:
    rows = load(name)
    assert len(rows) == SCENARIOS[name]
    found = {
        row["in"]["id"]: differences(row, answer)
        for row, answer in zip(rows, answers(rows, parity=True), strict=True)
    }
    assert {name: what for name, what in found.items() if what} == {}


def test_answers_name_scenario_and_strategy_in_the_order_of_the_lines() -> None:
    rows = load("OverloadShedder")[:5]
    found = answers(rows, parity=True)
    assert [(a["id"], a["strategy"]) for a in found] == [
        (row["in"]["id"], "OverloadShedder") for row in rows
    ]


def test_the_judge_sees_a_difference() -> None:
    rows = load("TransferShedder")
    for row, answer in zip(rows, answers(rows, parity=True), strict=True):
        for tick in answer["ticks"]:
            if tick["decisions"]:
                tick["decisions"].pop()
                assert differences(row, answer)
                return
    pytest.fail("no scenario decides anything")


def test_the_golden_files_are_small_enough_to_be_carried() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 2_000_000
