"""Tables of minimum, median and maximum for the benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


def spread(values: Sequence[float]) -> dict[str, float]:
    """min, median and max of the runs."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the runs lie (nearest rank)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


@dataclass
class Table:
    """Rows of one figure, printed with their spread."""

    title: str
    unit: str
    rows: list[tuple[str, dict[str, float]]] = field(default_factory=list)

    def row(self, name: str, values: Sequence[float]) -> None:
        """Adds one row."""
        self.rows.append((name, spread(values)))

    def show(self) -> None:
        """Prints the table."""
        print(f"\n{self.title} [{self.unit}]")
        print(f"  {'':42s} {'min':>10s} {'median':>10s} {'max':>10s}")
        for name, s in self.rows:
            print(f"  {name:42s} {s['min']:10.3f} {s['median']:10.3f} {s['max']:10.3f}")
