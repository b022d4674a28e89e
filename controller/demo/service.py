"""Who serves what, from the brokers' own logs: finds double service and gaps. Pure.

Rules:

1. Lines are taken in order of time, all brokers together; at one instant stops come before
   serves. All brokers of the demo share one machine, hence one clock.
2. Two brokers that serve overlapping hash ranges of a namespace at the same time are one
   violation, however short it is; parents and children of a split count as overlapping.
3. A hash range that was served once and is served by nobody for longer than the take-over limit
   is one violation. A range is followed hash by hash: children fill the gap of their parent.
4. A killed broker stops serving at the time of its death, which somebody has to tell.

Called by the observer and by tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.agent.own_log import OwnLine
from controller.model.bundles import BundleNameError, split_name

Span = tuple[int, int]
"""Hash range [lower, upper) without the namespace."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two brokers began to serve the same hashes at `ms`."""

    ms: float
    bundle: str
    broker: str
    other_bundle: str
    other: str


@dataclass(slots=True)
class Gap:
    """A hash range that nobody serves since `since_ms`; `cause` is the broker it was lost by."""

    namespace: str
    span: Span
    since_ms: float
    cause: str
    is_by_death: bool
    is_counted: bool = False


@dataclass(slots=True)
class Service:
    """See the module text; `feed` and `died` in order of time, then ask."""

    gap_limit_ms: float
    overlaps: list[Overlap] = field(default_factory=list)
    gaps_too_long: int = 0
    live: set[str] = field(default_factory=set)
    load_ratio: dict[str, float] = field(default_factory=dict)
    reports: int = 0
    changed_ms: float = 0.0  # last time that any broker began to serve something
    reported_ms: dict[str, float] = field(default_factory=dict)
    _serving: dict[str, dict[str, tuple[str, Span]]] = field(default_factory=dict)
    _gaps: list[Gap] = field(default_factory=list)
    _takeover_ms: dict[str, float] = field(default_factory=dict)
    _died_ms: dict[str, float] = field(default_factory=dict)

    @property
    def violations(self) -> int:
        """Instants with two servers, and hash ranges unserved beyond the limit, so far."""
        return len(self.overlaps) + self.gaps_too_long

    def feed(self, line: OwnLine) -> None:
        """One line of a broker's own log."""
        match line.event:
            case "start":
                self.live.add(line.broker)
                self._stop_all(line.broker, line.ms, is_by_death=False)
            case "serve" if line.bundle is not None:
                self._serve(line.broker, line.bundle, line.ms)
            case "stop" if line.bundle is not None:
                self._stop(line.broker, line.bundle, line.ms, is_by_death=False)
            case "fence":
                self._stop_all(line.broker, line.ms, is_by_death=False)
            case "exit":
                self._gone(line.broker, line.ms, is_by_death=False)
            case "load" if line.load_ratio is not None:
                self.load_ratio[line.broker] = line.load_ratio
                self.reported_ms[line.broker] = line.ms
                self.reports += 1

    def died(self, broker: str, ms: float) -> None:
        """The broker's process ended at `ms` without a last line (SIGKILL)."""
        self._died_ms[broker] = ms
        self._gone(broker, ms, is_by_death=True)

    def check_gaps(self, now_ms: float) -> None:
        """Counts gaps that have become too long; to be called as time passes."""
        for gap in self._gaps:
            if not gap.is_counted and now_ms - gap.since_ms > self.gap_limit_ms:
                gap.is_counted = True
                self.gaps_too_long += 1

    def served(self) -> dict[str, list[str]]:
        """Bundles by the broker that serves them, sorted; live brokers without any included."""
        found: dict[str, list[str]] = {broker: [] for broker in self.live}
        for bundle, holders in self._serving.items():
            for broker in holders:
                found.setdefault(broker, []).append(bundle)
        return {broker: sorted(found[broker]) for broker in sorted(found)}

    def open_gaps(self) -> int:
        """Hash ranges that nobody serves now."""
        return len(self._gaps)

    def takeover_s(self, broker: str) -> float | None:
        """Seconds from the death to the last of its hashes being served again; None = not yet."""
        if broker not in self._died_ms or any(
            gap.is_by_death and gap.cause == broker for gap in self._gaps
        ):
            return None
        return (self._takeover_ms.get(broker, self._died_ms[broker]) - self._died_ms[broker]) / 1e3

    def has_fresh_loads(self) -> bool:
        """True when every live broker has logged its load since service last began anywhere."""
        return all(self.reported_ms.get(b, -1.0) >= self.changed_ms for b in self.live)

    def imbalance(self) -> float | None:
        """Max over mean of the load ratio of live brokers; None before all have reported."""
        loads = [self.load_ratio[b] for b in sorted(self.live) if b in self.load_ratio]
        if not loads or len(loads) < len(self.live) or sum(loads) <= 0.0:
            return None
        return max(loads) * len(loads) / sum(loads)

    def _serve(self, broker: str, bundle: str, ms: float) -> None:
        try:
            namespace, lower, upper = split_name(bundle)
        except BundleNameError:
            return
        self.live.add(broker)
        self.changed_ms = ms
        for other_bundle, holders in self._serving.items():
            for other, (space, span) in holders.items():
                if other != broker and space == namespace and _meet(span, (lower, upper)):
                    self.overlaps.append(Overlap(ms, bundle, broker, other_bundle, other))
        self._serving.setdefault(bundle, {})[broker] = (namespace, (lower, upper))
        self._fill(namespace, (lower, upper), ms)

    def _stop(self, broker: str, bundle: str, ms: float, *, is_by_death: bool) -> None:
        holders = self._serving.get(bundle, {})
        held = holders.pop(broker, None)
        if not holders:
            self._serving.pop(bundle, None)
        if held is None:
            return
        namespace, span = held
        others = [
            other
            for others in self._serving.values()
            for space, other in others.values()
            if space == namespace
        ]
        for rest in _without(span, others):
            self._gaps.append(Gap(namespace, rest, ms, broker, is_by_death))

    def _stop_all(self, broker: str, ms: float, *, is_by_death: bool) -> None:
        for bundle in [b for b, holders in self._serving.items() if broker in holders]:
            self._stop(broker, bundle, ms, is_by_death=is_by_death)

    def _gone(self, broker: str, ms: float, *, is_by_death: bool) -> None:
        self._stop_all(broker, ms, is_by_death=is_by_death)
        self.live.discard(broker)
        self.load_ratio.pop(broker, None)

    def _fill(self, namespace: str, span: Span, ms: float) -> None:
        """Ends the part of every gap that `span` covers."""
        left: list[Gap] = []
        for gap in self._gaps:
            if gap.namespace != namespace or not _meet(gap.span, span):
                left.append(gap)
                continue
            if not gap.is_counted and ms - gap.since_ms > self.gap_limit_ms:
                gap.is_counted = True
                self.gaps_too_long += 1
            if gap.is_by_death:
                self._takeover_ms[gap.cause] = ms
            for rest in _without(gap.span, [span]):
                part = Gap(
                    namespace, rest, gap.since_ms, gap.cause, gap.is_by_death, gap.is_counted
                )
                left.append(part)
        self._gaps = left


def in_order(lines: list[OwnLine]) -> list[OwnLine]:
    """Lines by time; at one instant, what ends service comes before what begins it (rule 1)."""
    return sorted(lines, key=lambda line: (line.ms, line.event == "serve", line.broker))


def _meet(one: Span, two: Span) -> bool:
    return one[0] < two[1] and two[0] < one[1]


def _without(span: Span, covers: list[Span]) -> list[Span]:
    """Parts of the span that no cover touches, ascending."""
    rest: list[Span] = []
    at = span[0]
    for lower, upper in sorted(cover for cover in covers if _meet(cover, span)):
        if lower > at:
            rest.append((at, lower))
        at = max(at, upper)
    if at < span[1]:
        rest.append((at, span[1]))
    return rest
