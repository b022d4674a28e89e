"""Times every strategy alone on one view: 100 brokers, 65,000 bundles.

    python -m bench.strategies [--brokers 100] [--bundles 65000] [--runs 5] [--json]

The view is built by the core from its tables, as in the job, after one batch of full reports with
random loads; brokers get a skew so that shedders have work, and thresholds are low so that they
act at once; every tenth bundle is too big. Shed and split: one decision. Place: 1,000 bundles
placed one after the other.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench.load import SETTINGS, bundle_names, owned_state, reports
from bench.report import Table
from controller.core.settings import Settings
from controller.core.step import step
from controller.core.view.build import build_view, liveness
from controller.core.work import Work
from controller.strategies.params import AvgParams, ThresholdSplitParams, TransferParams
from controller.strategies.protocols import Unowned
from controller.strategies.registry import PLACE, SHED, SPLIT
from controller.strategies.view import ClusterView

PLACED = 1_000
TOO_BIG = 0.1


def view_of(brokers: int, bundles: int) -> tuple[ClusterView, Settings]:
    """A view with skewed loads, and settings by which every strategy acts at once."""
    names = bundle_names(bundles)
    settings = replace(
        SETTINGS,
        limits=replace(SETTINGS.limits, record_bytes_max=1 << 28),
        avg=AvgParams(hit_count_low=1, hit_count_high=1, low_threshold_points=5.0),
        transfer=TransferParams(hit_count=1, brokers_per_round_max=1_000, broker_delay_ms=0),
        thresholds=ThresholdSplitParams(hit_count=1, namespace_bundles_max=10**6),
    )
    rng = np.random.default_rng(7)
    batch = reports(brokers, names, 1, rng)
    state = step(owned_state(brokers, names), batch, batch[-1].ingest_ms, settings).state
    work = Work(state, settings, settings)
    now_ms = state.memory.clock_ms
    view, _ = build_view(work, now_ms, liveness(work, now_ms))
    skew = np.linspace(0.1, 1.0, len(view.broker_names))
    rate = float(np.quantile(view.bundle_now[:, :2].sum(axis=1), 1.0 - TOO_BIG))
    settings = replace(settings, thresholds=replace(settings.thresholds, rate_max=rate))
    return replace(view, broker_load=skew, broker_load_ema=skew.copy()), settings


def timed(act: Callable[[], object], runs: int) -> list[float]:
    """Seconds of each run, after one that does not count."""
    act()
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        act()
        found.append(time.perf_counter() - started)
    return found


def place_many(view: ClusterView, settings: Settings, name: str) -> int:
    """Places some bundles on one view; how many found a broker."""
    placement = PLACE[name](settings).begin(view, {})
    some = [Unowned(view.bundle_names[b], 10, 0.0, -1, at=b) for b in range(PLACED)]
    return sum(placement.choose(one).broker >= 0 for one in some)


def main() -> None:
    """Prints one table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=65_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    view, settings = view_of(options.brokers, options.bundles)
    size = f"{options.brokers} brokers x {options.bundles} bundles"
    shed, place = Table(f"shed, {size}", "s"), Table(f"place {PLACED}, {size}", "s")
    split = Table(f"split, {size}", "s")
    for parity in (False, True):
        used, mark = replace(settings, parity=parity), " (parity)" if parity else ""
        for name in SHED:
            moved = len(SHED[name](used).shed(view, {}).transfers)
            times = timed(lambda n=name, s=used: SHED[n](s).shed(view, {}), options.runs)
            shed.row(f"{name}{mark}: {moved} moved", times)
        for name in PLACE:
            times = timed(lambda n=name, s=used: place_many(view, s, n), options.runs)
            place.row(f"{name}{mark}", times)
        for name in SPLIT:
            cut = len(SPLIT[name](used).split(view, {}).splits)
            times = timed(lambda n=name, s=used: SPLIT[n](s).split(view, {}), options.runs)
            split.row(f"{name}{mark}: {cut} split", times)
    if options.json:
        print(json.dumps({t.title: dict(t.rows) for t in (shed, place, split)}))
        return
    for table in (shed, place, split):
        table.show()


if __name__ == "__main__":
    main()
