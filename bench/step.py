"""Times `controller.core.step` alone: one batch of load reports and a round, no Spark.

    python -m bench.step [--brokers 100] [--bundles 65000] [--runs 7] [--json]

A batch holds one report of every broker with all bundles in it, random floats that do not
compress. The state goes through its blob before each run, as in the job (there a warm worker
keeps the decoded state, so `decode` is what a cold one pays). Prints min / median / max of the
parts, the peak memory of the process, and the growth from 1,000 to 100,000 bundles.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import replace

import numpy as np

from bench.load import SETTINGS, bundle_names, owned_state, reports
from bench.report import Table, spread
from controller.core.state import decode_state, encode_state
from controller.core.step import step

WARM_UP_RUNS = 2


def measure(brokers: int, bundles: int, runs: int) -> dict[str, list[float]]:
    """Seconds per part over `runs` batches."""
    rng = np.random.default_rng(7)
    names = bundle_names(bundles)
    blob = encode_state(owned_state(brokers, names))
    settings = replace(SETTINGS, limits=replace(SETTINGS.limits, record_bytes_max=1 << 28))
    times: dict[str, list[float]] = {"decode": [], "step": [], "encode": []}
    for run in range(runs + WARM_UP_RUNS):
        batch = reports(brokers, names, run + 1, rng)
        started = time.perf_counter()
        state = decode_state(blob, settings)
        decoded = time.perf_counter()
        result = step(state, batch, batch[-1].ingest_ms, settings)
        stepped = time.perf_counter()
        blob = encode_state(result.state)
        encoded = time.perf_counter()
        assert not result.rejects, result.rejects[0]
        assert len(result.rounds) >= 1
        if run >= WARM_UP_RUNS:
            times["decode"].append(decoded - started)
            times["step"].append(stepped - decoded)
            times["encode"].append(encoded - stepped)
    times["blob_mb"] = [len(blob) / 1e6]
    return times


def main() -> None:
    """Runs the bench and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=65_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    parts = measure(args.brokers, args.bundles, args.runs)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    growth = {n: measure(args.brokers, n, 5)["step"] for n in (1_000, 10_000, 100_000)}
    per_bundle = {n: [t / n * 1e6 for t in times] for n, times in growth.items()}
    if args.json:
        figures = {f"{part}_s": spread(times) for part, times in parts.items() if times[1:]}
        growth_us = {n: spread(times) for n, times in per_bundle.items()}
        blob_mb = parts["blob_mb"][0]
        print(json.dumps({**figures, "blob_mb": blob_mb, "peak_mb": peak_mb, "us": growth_us}))
        return
    table = Table(f"step at {args.brokers} brokers x {args.bundles} bundles", "s")
    for part in ("decode", "step", "encode"):
        table.row(part, parts[part])
    table.show()
    print(f"  state blob {parts['blob_mb'][0]:.1f} MB, not compressed; peak {peak_mb:.0f} MB")
    table = Table("growth: step, per bundle", "us")
    for n, times in per_bundle.items():
        table.row(f"{n:>7} bundles", times)
    table.show()


if __name__ == "__main__":
    main()
