"""Without `parity`, decisions differ from Pulsar's exactly where a documented fix explains it.

tests/decide/differences.txt lists every golden scenario that is decided otherwise, with the fixes
that can matter in it; REWRITE=1 writes it anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from controller.decide.run import RUNNERS
from tests.decide.fixes import FIXES, explained_by
from tests.decide.test_golden import answers, differences
from tests.golden_scenarios import load

LISTED = Path(__file__).with_name("differences.txt")


@pytest.fixture(scope="module")
def differing() -> dict[str, dict[str, list[str]]]:
    """By class: ids of scenarios that are decided otherwise, and what explains each."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in RUNNERS:
        rows = load(name)
        for row, answer in zip(rows, answers(rows, parity=False), strict=True):
            if differences(row, answer):
                found.setdefault(name, {})[row["in"]["id"]] = explained_by(name, row)
    return found


def test_every_difference_is_explained_by_a_fix(
    differing: dict[str, dict[str, list[str]]],
) -> None:
    unexplained = [one for ids in differing.values() for one, fixes in ids.items() if not fixes]
    assert unexplained == []


def test_classes_without_a_fix_never_differ(differing: dict[str, dict[str, list[str]]]) -> None:
    assert set(differing) <= set(FIXES)


def test_most_scenarios_are_decided_as_pulsar_does(
    differing: dict[str, dict[str, list[str]]],
) -> None:
    """The explanations are not so wide that they would cover anything."""
    rows = {name: load(name) for name in FIXES}
    free = [row for name in FIXES for row in rows[name] if not explained_by(name, row)]
    assert len(free) > 400


def test_the_differences_are_those_that_are_listed(
    differing: dict[str, dict[str, list[str]]],
) -> None:
    lines = [f"{one}: {', '.join(why)}" for ids in differing.values() for one, why in ids.items()]
    text = "\n".join(lines) + "\n"
    if os.environ.get("REWRITE"):
        LISTED.write_text(text, encoding="utf-8")
    assert LISTED.read_text(encoding="utf-8") == text, "REWRITE=1 rewrites it, then read the diff"


def test_the_docs_name_every_scenario_of_a_fix_and_no_other() -> None:
    root = LISTED.parents[2]
    named = set(re.findall(r"fix_\w+\.txt", (root / "docs" / "parity.md").read_text()))
    assert named == {p.name for p in (root / "tests/strategies/scenarios").glob("fix_*.txt")}
