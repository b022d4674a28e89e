"""Lines of scenarios into lines of answers, in order; a bad line does not stop the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.decide import extensible, figures, modular
from controller.decide.runner import Runner
from controller.decide.scenario import ScenarioError, id_of, scenario_of

RUNNERS: Mapping[str, type[Runner[Any]]] = {
    "OverloadShedder": modular.Overload,
    "ThresholdShedder": modular.Threshold,
    "UniformLoadShedder": modular.Uniform,
    "AvgShedder": modular.Avg,
    "AvgShedderPlacement": modular.Avg,
    "TransferShedder": extensible.Transfer,
    "LeastLongTermMessageRate": modular.MessageRate,
    "LeastResourceUsageWithWeight": modular.UsageModular,
    "ExtLeastResourceUsageWithWeight": extensible.UsageExtensible,
    "RoundRobinBrokerSelector": modular.RoundRobin,
    "BundleSplitterTask": modular.Splitter,
    "BundleSplitAlgorithm": figures.SplitAlgorithm,
    "DefaultNamespaceBundleSplit": extensible.DefaultSplit,
    "TopKBundles": figures.TopK,
    "ServiceUnitStateConflict": figures.Conflict,
    "BrokerLoadData": figures.LoadData,
    "BundleData": figures.Windows,
    "BundleHash": figures.Hashes,
}
"""Classes of Pulsar by the names of the scenarios."""

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one line; `error` says what was wrong with it, with the member to blame."""

    number: int  # of the line, from 1
    answer: bytes
    error: ScenarioError | None = None


def decide_lines(
    lines: Iterable[bytes], strategy: str | None = None, *, parity: bool = False
) -> Iterator[Outcome]:
    """One outcome for each line that is not blank. `strategy` overrides what the lines name."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _decide(number, line, strategy, parity)


def _decide(number: int, line: bytes, strategy: str | None, parity: bool) -> Outcome:
    try:
        scenario = scenario_of(line)
        name = strategy or scenario.strategy
        if name is None or name not in RUNNERS:
            known = ", ".join(RUNNERS)
            reason = "is missing" if name is None else f"{name!r} is unknown"
            raise ScenarioError(f"{reason}; known are {known}", "strategy")
        ticks = RUNNERS[name](scenario, parity).run()
    except ScenarioError as error:
        return _refused(number, line, error)
    except Exception as error:
        # Whatever a scenario brings about, the lines after it are still decided.
        return _refused(number, line, ScenarioError(f"{type(error).__name__}: {error}", "ticks"))
    return Outcome(number, _encoder.encode({"id": scenario.id, "strategy": name, "ticks": ticks}))


def _refused(number: int, line: bytes, error: ScenarioError) -> Outcome:
    return Outcome(number, _encoder.encode({"id": id_of(line), "error": str(error)}), error)
