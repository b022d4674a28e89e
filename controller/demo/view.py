"""How the demo looks: a live picture in a terminal, plain lines everywhere else.

Pure functions of what the observer has seen; `Screen` alone touches the terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from controller.demo.observer import Observer
from controller.demo.traffic import SeenDecision
from controller.wire.channel import ServiceUnitStateData

BAR_CELLS = 40
SPARK_LEVELS = "▁▂▃▄▅▆▇█"
SPARK_SAMPLES = 60
SPARK_TOP = 1.6
"""Imbalance at the top of the sparkline; 1.0 (perfect balance) is its bottom."""

IN_FLIGHT_SHOWN = 6
DECISIONS_SHOWN = 8
WARM, HOT = 0.65, 0.85
"""Load ratios at which a bar turns yellow and red; Pulsar calls a broker overloaded at 0.85."""

PLAIN_INTERVAL_S = 5.0
FRAMES_PER_S = 4.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Where the run stands: `text` says what is going on, `left_s` until the end (None: open)."""

    text: str
    elapsed_s: float
    left_s: float | None


class Screen:
    """Draws frames at most `FRAMES_PER_S` times, or prints a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._live: Live | None = None
        self._printed_s = float("-inf")

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, refresh_per_second=FRAMES_PER_S, transient=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """One line that stays."""
        self.console.print(escape(text), soft_wrap=True)

    def show(self, observer: Observer, phase: Phase) -> None:
        """The present state: a new frame, or a plain line if it is time for one."""
        if self._live is not None:
            self._live.update(frame(observer, phase))
        elif not 0.0 <= phase.elapsed_s - self._printed_s < PLAIN_INTERVAL_S:
            self._printed_s = phase.elapsed_s
            self.say(plain_line(observer, phase))


def frame(observer: Observer, phase: Phase) -> RenderableType:
    """One picture of everything."""
    return Group(
        Text(_phase_line(phase), style="bold"),
        _broker_table(observer),
        _imbalance_line(observer),
        Text(_counts_line(observer)),
        *_in_flight_lines(observer),
        *_decision_lines(observer),
    )


def plain_line(observer: Observer, phase: Phase) -> str:
    """The same in one line without colours."""
    loads = observer.service.load_ratio
    brokers = " ".join(f"{b}={loads.get(b, 0.0):.0%}" for b in sorted(observer.service.live))
    value = observer.service.imbalance()
    imbalance = "-" if value is None else f"{value:.2f}"
    line = f"{_phase_line(phase)} | imbalance {imbalance} | {brokers} | {_counts_line(observer)}"
    if observer.decisions.last:
        line += f" | last: {decision_text(observer.decisions.last[-1])}"
    return line


def sparkline(values: list[float]) -> str:
    """Imbalances as blocks: 1.0 lowest, `SPARK_TOP` and above highest."""
    top = len(SPARK_LEVELS) - 1
    levels = [round((value - 1.0) / (SPARK_TOP - 1.0) * top) for value in values]
    return "".join(SPARK_LEVELS[min(max(level, 0), top)] for level in levels)


def decision_text(decision: SeenDecision) -> str:
    """One decision in words."""
    way = f" {decision.source or '-'} → {decision.destination or '-'}"
    if not decision.source and not decision.destination:
        way = ""
    detail = f" ({decision.detail})" if decision.detail else ""
    return f"{decision.kind} {_short(decision.bundle)}{way}: {decision.reason}{detail}"


def _phase_line(phase: Phase) -> str:
    left = "" if phase.left_s is None else f", {_clock(phase.left_s)} left"
    return f"[{_clock(phase.elapsed_s)}{left}] {phase.text}"


def _broker_table(observer: Observer) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("broker", "load", "", "bundles"):
        table.add_column(heading)
    for broker, bundles in observer.service.served().items():
        ratio = observer.service.load_ratio.get(broker, 0.0)
        table.add_row(broker, _bar(ratio), f"{ratio:4.0%}", f"{len(bundles):3d}")
    for broker in observer.killed:
        if broker not in observer.service.live:
            table.add_row(broker, Text("dead", style="dim"), "", "")
    return table


def _bar(ratio: float) -> Text:
    filled = min(max(round(ratio * BAR_CELLS), 0), BAR_CELLS)
    style = "red" if ratio >= HOT else "yellow" if ratio >= WARM else "green"
    return Text("█" * filled, style=style) + Text("·" * (BAR_CELLS - filled), style="dim")


def _imbalance_line(observer: Observer) -> Text:
    values = [value for _, value in list(observer.samples)[-SPARK_SAMPLES * 2 :: 2]]
    now = f"{values[-1]:.2f}" if values else "-"
    return Text(f"imbalance (max/mean) {now:>5}  {sparkline(values)}")


def _counts_line(observer: Observer) -> str:
    channel, service = observer.channel, observer.service
    return (
        f"rounds {observer.decisions.rounds}, transfers {channel.transfers}, "
        f"splits {channel.splits}, take-overs {channel.overrides}, "
        f"in flight {len(channel.in_flight())}, unserved {service.open_gaps()}, "
        f"violations {service.violations}"
    )


def _in_flight_lines(observer: Observer) -> list[Text]:
    units = observer.channel.in_flight()
    lines = [Text(f"  {_unit_text(*unit)}", style="cyan") for unit in units[:IN_FLIGHT_SHOWN]]
    if len(units) > IN_FLIGHT_SHOWN:
        lines.append(Text(f"  and {len(units) - IN_FLIGHT_SHOWN} more", style="cyan"))
    return [Text("in flight:"), *lines] if lines else []


def _unit_text(bundle: str, unit: ServiceUnitStateData) -> str:
    source, destination = unit.sourceBroker or "-", unit.dstBroker or "-"
    return f"{_short(bundle)} {unit.state.value} {source} → {destination}"


def _decision_lines(observer: Observer) -> list[Text]:
    last = list(observer.decisions.last)[-DECISIONS_SHOWN:]
    if not last:
        return []
    lines = [Text("last decisions:"), *(Text(f"  {decision_text(d)}") for d in reversed(last))]
    refusals = sorted(observer.decisions.refusals.items())
    if refusals:
        counts = ", ".join(f"{reason} {count}" for reason, count in refusals)
        lines.append(Text(f"not done in the last round: {counts}"))
    return lines


def _short(bundle: str) -> str:
    """`demo/orders/0x14000000_0x18000000` as `orders/14000000-18000000`."""
    namespace, _, span = bundle.rpartition("/")
    return f"{namespace.rpartition('/')[2]}/{span.replace('0x', '').replace('_', '-')}"


def _clock(seconds: float) -> str:
    whole = max(int(seconds), 0)
    return f"{whole // 60}:{whole % 60:02d}"
