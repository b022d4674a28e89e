"""AvgShedder's rules as golden scenarios (pulsar.md §3.5): tests/strategies/scenarios/avg_*.txt.

Commands: `params name=value …` (fields of AvgParams); `bundles BROKER RATE…` gives a broker its
bundles; `throughputs BROKER BYTES…` the same by throughput; `frozen BROKER…`; `left BUNDLE BROKER`
(may not return there); `round BROKER=POINTS … [xN]` runs N rounds, and prints for each the hit
counts, the transfers, and the refusals. Transfers change nothing by themselves: the scenario says
what the load is.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from controller.strategies.memory import Memory
from controller.strategies.params import AvgParams
from controller.strategies.shed.avg import AvgShed
from tests.golden_text import run_golden
from tests.views import B, make_view

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("avg_*.txt"))


class Interpreter:
    def __init__(self) -> None:
        self.params = AvgParams()
        self.bundles: dict[str, list[B]] = {}
        self.frozen: tuple[str, ...] = ()
        self.memory: Memory = {}
        self.round = 0

    def __call__(self, line: str) -> str:
        command, *args = line.split()
        return getattr(self, f"do_{command}")(args)

    def do_params(self, args: list[str]) -> str:
        types = {f.name: type(getattr(self.params, f.name)) for f in dataclasses.fields(AvgParams)}
        given = dict(a.split("=") for a in args)
        values = {name: types[name](float(value)) for name, value in given.items()}
        self.params = dataclasses.replace(self.params, **values)
        return ""

    def do_bundles(self, args: list[str]) -> str:
        self.bundles[args[0]] = [B(args[0], rate=float(r)) for r in args[1:]]
        return ""

    def do_throughputs(self, args: list[str]) -> str:
        self.bundles[args[0]] = [B(args[0], throughput=float(t)) for t in args[1:]]
        return ""

    def do_left(self, args: list[str]) -> str:
        """`left OWNER NUMBER BROKER`"""
        owner, number = args[0], int(args[1])
        own = self.bundles[owner]
        own[number] = dataclasses.replace(own[number], left=args[2])
        return ""

    def do_frozen(self, args: list[str]) -> str:
        self.frozen = tuple(args)
        return ""

    def do_round(self, args: list[str]) -> str:
        times = int(args.pop()[1:]) if args[-1].startswith("x") else 1
        points = {a.split("=")[0]: float(a.split("=")[1]) for a in args}
        return "\n".join(self._one(points) for _ in range(times))

    def _one(self, points: dict[str, float]) -> str:
        self.round += 1
        bundles = [b for name in sorted(points) for b in self.bundles.get(name, [])]
        numbers = [i for name in sorted(points) for i in range(len(self.bundles.get(name, [])))]
        view = make_view(points, bundles, frozen=self.frozen)
        plan = AvgShed(self.params).shed(view, self.memory)
        self.memory = plan.memory
        parts = [
            f"{self.round:2d}: low {_hits(plan.memory, 'low')}, high {_hits(plan.memory, 'high')}"
        ]
        for t in plan.transfers:
            parts.append(
                f"    move {view.broker_names[t.source]}#{numbers[t.bundle]} -> "
                f"{view.broker_names[t.destination]}"
            )
        for v in plan.verdicts:
            inputs = " ".join(
                f"{k}={x:g}" if isinstance(x, float) else f"{k}={x}" for k, x in v.inputs
            )
            parts.append(f"    no {v.subject}: {v.reason.label} ({inputs})")
        return "\n".join(parts)


def _hits(memory: Memory, kind: str) -> str:
    return " ".join(f"{b}={n}" for b, n in sorted(memory.get(kind, {}).items())) or "-"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_avg_shedder_decides_as_the_scenario_says(path: Path) -> None:
    run_golden(path, Interpreter())


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 7
