"""What is decided otherwise than in Pulsar 4.2, shown with and without `parity`: fix_*.txt.

Commands, in plain words. A broker is `broker NAME POINTS [rate=] [bytes=] [capacity=] [reported=MS
ago] [unloaded=MS ago]`; `silent NAME…` never reported or is too late; `gone NAME…` leaves. A bundle
is `bundle OWNER [field=value …]`, with the fields of `tests.views.B`, `name=` for the answers, and
`owner=-` for none; `clear` drops the bundles. `params FIELD.NAME=VALUE …` sets parameters.

`round SHEDDER [xN]`, `choose PLACEMENT NAME…` and `split STRATEGY [xN]` answer for both modes, one
under the other; each mode has its memory. `round avg` also tells the placement what was shed.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.core.settings import Settings
from controller.strategies.memory import Memory, only
from controller.strategies.protocols import PLACED, UNNAMED, Unowned
from controller.strategies.registry import PLACE, SHED, SPLIT
from controller.strategies.view import ClusterView, TopicLoads
from tests.golden_text import run_golden
from tests.views import NOW_MS, B, make_view

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("fix_*.txt"))
MODES = {"parity": True, "fixed": False}
TYPES = {f.name: f.type for f in dataclasses.fields(B)}


class Interpreter:
    def __init__(self) -> None:
        self.params: dict[str, dict[str, str]] = {}
        self.brokers: dict[str, dict[str, float]] = {}
        self.silent: set[str] = set()
        self.bundles: dict[str, B] = {}
        self.topics: dict[str, list[tuple[int, float]]] = {}
        self.twins: dict[str, str] = {}
        self.memory: dict[tuple[str, str], Memory] = {}

    def __call__(self, line: str) -> str:
        command, *args = line.split()
        return getattr(self, f"do_{command}")(args) or ""

    # ------------------------------------------------------------------ the cluster
    def do_params(self, args: list[str]) -> None:
        for arg in args:
            path, _, value = arg.partition("=")
            section, _, name = path.partition(".")
            self.params.setdefault(section, {})[name] = value

    def do_broker(self, args: list[str]) -> None:
        name, points, *more = args
        given = {key: float(value) for key, value in (one.split("=") for one in more)}
        self.brokers[name] = {"points": float(points), **given}

    def do_silent(self, args: list[str]) -> None:
        self.silent = set(args)

    def do_gone(self, args: list[str]) -> None:
        for name in args:
            del self.brokers[name]
        self.bundles = {label: b for label, b in self.bundles.items() if b.owner not in args}
        left = set(self.brokers)
        self.memory = {
            key: memory if key == ("parity", "avg") else only(memory, left)
            for key, memory in self.memory.items()
        }

    def do_bundle(self, args: list[str]) -> None:
        owner, *more = args
        given: dict[str, Any] = dict(one.split("=") for one in more)
        name = given.pop("name", f"#{len(self.bundles) + 1}")
        values = {key: _value(TYPES[key], text) for key, text in given.items()}
        self.bundles[name] = B(None if owner == "-" else owner, **values)

    def do_bundles(self, args: list[str]) -> None:
        """`bundles OWNER COUNT [field=value …]`"""
        for _ in range(int(args[1])):
            self.do_bundle([args[0], *args[2:]])

    def do_topics(self, args: list[str]) -> None:
        """`topics BUNDLE PLACE:RATE…`, places as shares of the bundle's range"""
        pairs = (one.split(":") for one in args[1:])
        width = 0x1000000
        self.topics[args[0]] = [(int(float(at) * width), float(rate)) for at, rate in pairs]

    def do_twin(self, args: list[str]) -> None:
        """`twin BUNDLE OTHER`: the other has the same range"""
        self.twins[args[1]] = args[0]

    def do_clear(self, args: list[str]) -> None:
        self.bundles.clear()
        self.topics.clear()

    def view(self) -> ClusterView:
        view = make_view(
            {name: one["points"] for name, one in self.brokers.items()},
            list(self.bundles.values()),
            frozen=sorted(self.silent),
            rates=self._known("rate"),
            throughputs=self._known("bytes"),
            capacities=self._known("capacity"),
            unloaded={name: int(ms) for name, ms in self._known("unloaded").items()},
        )
        ages = self._known("reported")
        reported = [NOW_MS - int(ages.get(name, 0)) for name in view.broker_names]
        for at, name in enumerate(view.broker_names):
            if name in self.silent and name not in ages:
                reported[at] = 0
        names = list(self.bundles)
        topics = {
            names.index(bundle): TopicLoads(
                np.array([int(view.bundle_lower[names.index(bundle)]) + at for at, _ in some]),
                np.array([rate for _, rate in some]),
                np.zeros(len(some)),
            )
            for bundle, some in self.topics.items()
        }
        for other, bundle in self.twins.items():
            for bound in (view.bundle_lower, view.bundle_upper):
                bound[names.index(other)] = bound[names.index(bundle)]
        reported_ms = np.array(reported, np.int64)
        return dataclasses.replace(view, broker_reported_ms=reported_ms, topics=topics)

    def _known(self, figure: str) -> dict[str, float]:
        return {name: one[figure] for name, one in self.brokers.items() if figure in one}

    def settings(self, parity: bool) -> Settings:
        settings = Settings(parity=parity)
        for section, given in self.params.items():
            params = getattr(settings, section)
            kinds = {f.name: type(getattr(params, f.name)) for f in dataclasses.fields(params)}
            values = {name: _value(kinds[name].__name__, text) for name, text in given.items()}
            changed = dataclasses.replace(params, **values)
            settings = dataclasses.replace(settings, **{section: changed})
        return settings

    # ------------------------------------------------------------------ the questions
    def do_round(self, args: list[str]) -> str:
        return "\n".join(
            line for mode in MODES for _ in range(_times(args)) for line in self._round(mode, args)
        )

    def _round(self, mode: str, args: list[str]) -> list[str]:
        view, settings, name = self.view(), self.settings(MODES[mode]), args[0]
        plan = SHED[name](settings).shed(view, self.memory.get((mode, name), {}))
        self.memory[mode, name] = plan.memory
        if name == "avg":
            placed = self.memory.get((mode, "place avg"), {})
            after = PLACE["avg"](settings).after_shed(view, plan, placed)
            self.memory[mode, "place avg"] = after
        labels = list(self.bundles)
        lines = [f"{mode}: {'nothing moves' if not plan.transfers else ''}".rstrip()]
        ends = {PLACED: "where the placement says", UNNAMED: "anywhere"}
        for t in plan.transfers:
            to = view.broker_names[t.destination] if t.destination >= 0 else ends[t.destination]
            lines.append(f"    {labels[t.bundle]} {view.broker_names[t.source]} -> {to}")
        lines += [f"    no {v.subject}: {v.reason.label}" for v in plan.verdicts]
        lines += [f"    skipped: {plan.skip}"] if plan.skip else []
        return lines + _told(plan.memory)

    def do_choose(self, args: list[str]) -> str:
        """`choose PLACEMENT COUNT` for so many new bundles, or `choose PLACEMENT NAME…`"""
        name, *which = args
        lines = []
        for mode, parity in MODES.items():
            view, labels = self.view(), list(self.bundles)
            key = (mode, f"place {name}")
            placement = PLACE[name](self.settings(parity)).begin(view, self.memory.get(key, {}))
            if which[0].isdigit():
                asked = [Unowned(f"new/{n}", 0, 0.0, -1) for n in range(int(which[0]))]
            else:
                at = [labels.index(label) for label in which]
                asked = [Unowned(view.bundle_names[i], 0, 0.0, -1, at=i) for i in at]
            chosen = [view.broker_names[placement.choose(one).broker] for one in asked]
            self.memory[key] = placement.memory
            lines.append(f"{mode}: {' '.join(chosen)}")
        return "\n".join(lines)

    def do_split(self, args: list[str]) -> str:
        return "\n".join(
            line for mode in MODES for _ in range(_times(args)) for line in self._split(mode, args)
        )

    def _split(self, mode: str, args: list[str]) -> list[str]:
        view, name, labels = self.view(), args[0], list(self.bundles)
        key = (mode, f"split {name}")
        plan = SPLIT[name](self.settings(MODES[mode])).split(view, self.memory.get(key, {}))
        self.memory[key] = plan.memory
        lines = [f"{mode}: {'nothing is split' if not plan.splits else ''}".rstrip()]
        for one in plan.splits:
            at = ", ".join(
                f"{(b - int(view.bundle_lower[one.bundle])) / 0x1000000:.3f}"
                for b in one.boundaries
            )
            lines.append(f"    {labels[one.bundle]} at {at or 'no boundary'}")
        lines += [
            f"    no {labels[list(view.bundle_names).index(v.subject)]}: {v.reason.label}"
            for v in plan.verdicts
        ]
        return lines + ([f"    failures: {plan.failures}"] if plan.failures else [])


def _times(args: list[str]) -> int:
    return int(args[-1][1:]) if len(args) > 1 and args[-1][0] == "x" else 1


def _value(kind: Any, text: str) -> Any:
    if kind == "bool":
        return text in ("yes", "True", "true")
    if kind in ("float", "int"):
        return float(text) if kind == "float" else int(text)
    return text


def _told(memory: Memory) -> list[str]:
    return [
        f"    {kind}: " + " ".join(f"{name}={value:g}" for name, value in sorted(table.items()))
        for kind, table in sorted(memory.items())
        if table
    ]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_pulsars_answer_and_ours_are_as_the_scenario_says(path: Path) -> None:
    run_golden(path, Interpreter())


def test_every_fix_shows_a_difference() -> None:
    assert len(SCENARIOS) >= 14
    for path in SCENARIOS:
        text = path.read_text(encoding="utf-8")
        answers = [part.split("\n\n")[0] for part in text.split("----\n")[1:]]
        assert any(_parity(a) != _fixed(a) for a in answers if "parity:" in a), path.name


def _parity(answer: str) -> str:
    return answer.split("fixed:", maxsplit=1)[0].replace("parity:", "").strip()


def _fixed(answer: str) -> str:
    return answer.split("fixed:", 1)[1].replace("fixed:", "").strip()
