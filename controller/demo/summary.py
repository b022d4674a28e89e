"""The end of the demo in words and as JSON. Pure but for writing the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from controller.demo.observer import Observer


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of the JSON summary; what never happened is null."""

    reports: int
    rounds: int
    transfers: int
    assignments: int
    splits: int
    imbalance_start: float | None
    imbalance_end: float | None
    orphan_takeover_s: float | None
    violations: int


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a good run of the full length shows."""

    imbalance_end_max: float = 1.25
    takeover_s_max: float = 30.0


def summarize(observer: Observer) -> Summary:
    """The summary of what the observer has seen."""
    return Summary(
        reports=observer.service.reports,
        rounds=observer.decisions.rounds,
        transfers=observer.channel.transfers,
        assignments=observer.channel.assignments,
        splits=observer.channel.splits,
        imbalance_start=_rounded(observer.imbalance_start),
        imbalance_end=_rounded(observer.imbalance_end()),
        orphan_takeover_s=_rounded(observer.takeover_s()),
        violations=observer.service.violations,
    )


def in_words(summary: Summary, observer: Observer) -> list[str]:
    """Sentences for people, one per line."""
    lines = [
        f"The brokers sent {summary.reports} load reports; the controller ran "
        f"{summary.rounds} rounds.",
        f"It assigned {summary.assignments} bundles, transferred {summary.transfers} and split "
        f"{summary.splits}.",
        f"Imbalance (max/mean of load) went from {_figure(summary.imbalance_start)} to "
        f"{_figure(summary.imbalance_end)}.",
    ]
    if summary.orphan_takeover_s is not None:
        lines.append(
            f"After the kill of {', '.join(observer.killed)} all its bundles were served again "
            f"within {summary.orphan_takeover_s:.1f} s."
        )
    elif observer.killed:
        lines.append(f"Bundles of {', '.join(observer.killed)} are still served by nobody.")
    if summary.violations == 0:
        lines.append("No bundle ever had two owners, and none was left unserved beyond the limit.")
    else:
        lines.append(
            f"{summary.violations} VIOLATIONS: {len(observer.service.overlaps)} times two owners, "
            f"{observer.service.gaps_too_long} hash ranges unserved beyond the limit."
        )
        lines += [
            f"  {o.broker} began to serve {o.bundle} while {o.other} served {o.other_bundle}"
            for o in observer.service.overlaps[:5]
        ]
    return lines


def complaints(
    summary: Summary, observer: Observer, expected: Expectations | None = None
) -> list[str]:
    """What falls short of a good run, in words; empty = all well."""
    wants = expected or Expectations()
    found: list[str] = []
    if summary.violations:
        found.append(f"{summary.violations} violations")
    start, end = summary.imbalance_start, summary.imbalance_end
    if end is None or start is None:
        found.append("imbalance was never measured")
    elif end > wants.imbalance_end_max or end >= start:
        found.append(f"imbalance ended at {end:.2f} after {start:.2f}")
    if summary.splits < 1:
        found.append("no bundle was split")
    if observer.killed:
        takeover_s = summary.orphan_takeover_s
        if takeover_s is None or takeover_s > wants.takeover_s_max:
            found.append("orphaned bundles were not taken over in time")
    return found


def write_json(summary: Summary, path: Path) -> None:
    """Writes the summary as one JSON object."""
    path.write_bytes(msgspec.json.encode(summary) + b"\n")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
