"""Times `bundlectl decide`: scenarios of 20 brokers and 200 bundles, one core.

    python -m bench.decide [--scenarios 400] [--json]

Scenarios are made from a seed, one tick each, and decided in this process (reading, view, strategy,
answer) and as a whole process from a file. Prints scenarios per second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.report import Table
from controller.decide.run import decide_lines

SEED = 11
RUNS = 3
BROKERS, BUNDLES = 20, 200
MODULAR = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder")


def bundles(rng: random.Random) -> dict[str, float]:
    """Names, and throughput of each."""
    width = 2**32 // BUNDLES
    edges = [k * width for k in range(BUNDLES)] + [2**32 - 1]
    names = [f"t/n/0x{a:08x}_0x{b:08x}" for a, b in itertools.pairwise(edges)]
    return {name: round(rng.paretovariate(1.2) * 1e5, 1) for name in names}


def modular(strategy: str, number: int, rng: random.Random) -> dict[str, Any]:
    """One scenario of a modular shedder."""
    loads = bundles(rng)
    names = list(loads)
    rng.shuffle(names)
    brokers = {}
    for at in range(BROKERS):
        own = names[at::BROKERS]
        total = sum(loads[name] for name in own)
        brokers[f"broker-{at}:8080"] = {
            "cpu": {"usage": rng.uniform(5, 100), "limit": 100},
            "bandwidthIn": {"usage": rng.uniform(0, 8e5), "limit": 1e6},
            "msgThroughputIn": total,
            "msgThroughputOut": total,
            "msgRateIn": total / 1_000,
            "msgRateOut": total / 1_000,
            "bundles": own,
        }
    figures = {
        name: {
            "shortTerm": {
                "msgThroughputIn": load,
                "msgThroughputOut": load,
                "msgRateIn": load / 1_000,
                "msgRateOut": load / 1_000,
            }
        }
        for name, load in loads.items()
    }
    conf = {"loadBalancerAvgShedderHitCountHighThreshold": 1}
    tick = {"brokers": brokers, "bundleData": figures, "recentlyUnloaded": names[:10]}
    return {"id": f"{strategy}-{number}", "strategy": strategy, "conf": conf, "ticks": [tick]}


def transfer(number: int, rng: random.Random) -> dict[str, Any]:
    """One scenario of TransferShedder: every broker reports its ten bundles."""
    loads = bundles(rng)
    names = list(loads)
    brokers, tops = {}, {}
    for at in range(BROKERS):
        own = sorted(names[at::BROKERS], key=loads.__getitem__)
        total = sum(loads[name] for name in own)
        brokers[f"broker-{at}:8080"] = {
            "weightedMaxEMA": rng.random(),
            "msgThroughputIn": total,
            "msgThroughputOut": total,
            "msgThroughputEMA": 2 * total,
        }
        tops[f"broker-{at}:8080"] = [
            {"bundle": n, "msgThroughputIn": loads[n], "msgThroughputOut": loads[n]} for n in own
        ]
    conf = {"loadBalancerSheddingConditionHitCountThreshold": 0}
    tick = {"brokers": brokers, "topBundles": tops}
    return {"id": f"T-{number}", "strategy": "TransferShedder", "conf": conf, "ticks": [tick]}


def lines_of(strategy: str, count: int) -> list[bytes]:
    """Scenarios as lines."""
    rng = random.Random(f"{SEED}-{strategy}")
    make = transfer if strategy == "TransferShedder" else None
    rows = [make(n, rng) if make else modular(strategy, n, rng) for n in range(count)]
    return [json.dumps(row).encode() for row in rows]


def as_process(lines: list[bytes]) -> float:
    """Seconds of the command on a file, start-up included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenarios.jsonl"
        path.write_bytes(b"\n".join(lines))
        command = [sys.executable, "-m", "controller.cli.main", "decide", str(path)]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started


def main() -> None:
    """Prints scenarios per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = Table(f"decide, {BROKERS} brokers x {BUNDLES} bundles", "scenarios/s")
    for strategy in (*MODULAR, "TransferShedder"):
        lines = lines_of(strategy, options.scenarios)
        rates = []
        for _ in range(RUNS):
            started = time.perf_counter()
            bad = sum(outcome.error is not None for outcome in decide_lines(lines))
            rates.append(len(lines) / (time.perf_counter() - started))
            assert not bad
        table.row(strategy, rates)
        whole = [len(lines) / as_process(lines) for _ in range(RUNS)]
        table.row(f"{strategy}, whole process", whole)
    print(json.dumps(dict(table.rows))) if options.json else table.show()


if __name__ == "__main__":
    main()
