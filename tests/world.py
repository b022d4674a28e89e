"""A small world on a simulated clock: brokers that report, obey the channel, and die on request.

It records a log (`RawRecord`s in the order of their ingest time) while it feeds `step` record by
record; tests then replay the recorded log in other cuts. No clock, no sleep, no Spark. The
brokers here are a second, deliberately simple implementation of the agent's rules.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from controller.channel.conflict import keep_old
from controller.core.inputs import RawRecord, StepResult
from controller.core.settings import (
    ActionSettings,
    LivenessSettings,
    RoundSettings,
    Settings,
)
from controller.core.state import ClusterState, decode_state, encode_state, new_state
from controller.core.step import step
from controller.strategies.params import AvgParams, ThresholdSplitParams
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel
from controller.wire.commands import Assign, Command, Refused, Tick, encode_command
from controller.wire.reports import (
    BundleStats,
    Heartbeat,
    LoadReport,
    ResourceUsage,
    encode_heartbeat,
    encode_load_report,
)

START_MS = 1_000_000_000_000
CLUSTER = "main"
S = ServiceUnitState

SETTINGS = Settings(
    rounds=RoundSettings(interval_ms=1_000, upkeep_interval_ms=500, settle_ms=100, warmup_ms=1_000),
    liveness=LivenessSettings(report_ttl_ms=4_000, late_after_ms=1_700, takeover_after_ms=3_000),
    actions=ActionSettings(
        bundle_cooldown_ms=5_000,
        no_return_ms=10_000,
        in_flight_timeout_ms=5_000,
        tombstone_delay_ms=6_000,
    ),
    avg=AvgParams(hit_count_low=3, min_unload_rate=10.0),
    thresholds=ThresholdSplitParams(rate_max=50_000.0, topics_max=10_000, hit_count=2),
    channel_topic="bundle-state-main",
)


@dataclass
class World:
    """`brokers` by name -> capacity in msg/s; `bundles` by name -> rate in msg/s."""

    brokers: dict[str, float]
    bundles: dict[str, float]
    settings: Settings = SETTINGS
    seed: int = 1
    now_ms: int = START_MS
    log: list[RawRecord] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    table: dict[str, ServiceUnitStateData | None] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    status: dict[str, str] = field(default_factory=dict)  # brokers that are not "up"
    jittery: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    refuse: Callable[[str], bool] = lambda bundle: False
    is_mute: bool = False  # what the controller writes never arrives

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.state = new_state(CLUSTER, self.settings)
        self.counter = 0
        self.sequence = START_MS
        for broker in sorted(self.brokers):
            self.at(self.random.randrange(300), lambda b=broker: self._report(b))
        self.at(100, self._tick)

    # ------------------------------------------------------------------ driving
    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Runs `action` after a delay of simulated time."""
        self.counter += 1
        heapq.heappush(self.queue, (self.now_ms + delay_ms, self.counter, action))

    def run(self, duration_ms: int) -> World:
        """Lets simulated time pass."""
        end = self.now_ms + duration_ms
        while self.queue and self.queue[0][0] <= end:
            due, _, action = heapq.heappop(self.queue)
            self.now_ms = due
            action()
        self.now_ms = end
        return self

    def ask(self, bundles: Iterable[str]) -> None:
        """Sends assignment requests, as lookups of clients would."""
        for bundle in bundles:
            self.command(Assign(bundle=bundle, requestedBy="client"))

    def command(self, command: Command) -> StepResult:
        self.append(self.settings.commands_topic, f"{CLUSTER}/x", encode_command(command))
        return self.results[-1]

    def append(self, topic: str, key: str | None, value: bytes | None, partition: int = 0) -> None:
        """Appends to the log, and steps the core with this one record."""
        offset = self.offsets.get((topic, partition), -1) + 1
        self.offsets[(topic, partition)] = offset
        record = RawRecord(self.now_ms, topic, partition, offset, key, value)
        self.log.append(record)
        result = step(self.state, [record], self.now_ms, self.settings)
        self.state = result.state
        self.results.append(result)
        for write in result.records:
            self.at(20, lambda w=write: self._publish(w.key, w.value, w.decision_id, w.version))

    # ------------------------------------------------------------------ the brokers
    def _tick(self) -> None:
        self.command(Tick())
        self.at(self.settings.rounds.upkeep_interval_ms, self._tick)

    def _report(self, broker: str) -> None:
        self.at(1_000, lambda: self._report(broker))
        if broker in self.silent:
            return
        self.sequence += 1
        own = sorted(b for b, o in self.owners.items() if o == broker)
        rates = {b: self.bundles.get(b, 0.0) for b in own}
        usage = ResourceUsage(100.0 * sum(rates.values()) / self.brokers[broker], 100.0)
        idle = ResourceUsage(0.0, 100.0)
        report = LoadReport(
            cluster=CLUSTER,
            broker=broker,
            sequence=self.sequence,
            timestamp=self.now_ms,
            **self._says(broker),
            full=True,
            cpu=usage,
            memory=idle,
            directMemory=idle,
            bandwidthIn=idle,
            bandwidthOut=idle,
            bundles={
                b: BundleStats(
                    msgRateIn=r / 2,
                    msgRateOut=r / 2,
                    msgThroughputIn=r * 100,
                    msgThroughputOut=r * 100,
                    topics=10,
                )
                for b, r in rates.items()
            },
        )
        self.append(self.settings.reports_topic, f"{CLUSTER}/{broker}", encode_load_report(report))
        self.at(500, lambda: broker in self.silent or self.heartbeat(broker))

    def heartbeat(self, broker: str, back: int = 0) -> None:
        """A sign of life; `back` > 0 makes it one of so many sequence numbers ago."""
        beat = Heartbeat(
            cluster=CLUSTER,
            broker=broker,
            sequence=self.sequence - back,
            timestamp=self.now_ms,
            **self._says(broker),
        )
        key = f"{CLUSTER}/{broker}"
        self.append(self.settings.reports_topic, key, encode_heartbeat(beat), 1)

    def _says(self, broker: str) -> dict[str, str]:
        transport = "jittery" if broker in self.jittery else "stable"
        return {"status": self.status.get(broker, "up"), "transport": transport}

    def stop(self, broker: str) -> None:
        """The broker says that it is gone, and is never heard of again."""
        self.status[broker] = "gone"
        self.sequence += 1
        self.heartbeat(broker)
        self.silent.add(broker)

    def start(self, broker: str) -> None:
        """The broker is there again, and says so with the next sequence number."""
        self.status.pop(broker, None)
        self.silent.discard(broker)
        self.sequence += 1
        self.heartbeat(broker)

    def _publish(self, bundle: str, value: bytes | None, decision_id: str, version: int) -> None:
        if self.is_mute:
            return
        if self.refuse(bundle):
            self.command(
                Refused(bundle=bundle, versionId=version, decisionId=decision_id, reason="expired")
            )
            return
        if value is None:
            self.channel(bundle, None)
        else:
            self.channel(bundle, msgspec.json.decode(value, type=ServiceUnitStateData))

    def channel(self, bundle: str, record: ServiceUnitStateData | None) -> None:
        """Appends to the channel; the brokers concerned react 30 ms later."""
        value = None if record is None else encode_channel(record)
        self.append(self.settings.channel_topic, bundle, value)
        if keep_old(self.table.get(bundle), record) is not None:
            return
        self.table[bundle] = record
        if record is None:
            self.owners.pop(bundle, None)
        else:
            self._obey(bundle, record)

    def _obey(self, bundle: str, record: ServiceUnitStateData) -> None:
        actor = record.dstBroker if record.state in (S.Assigning, S.Owned) else record.sourceBroker
        if record.state is S.Owned and record.dstBroker:
            self.owners[bundle] = record.dstBroker
        elif record.state is S.Owned or record.state in (S.Releasing, S.Assigning, S.Free):
            self.owners.pop(bundle, None)
        if actor in self.silent:
            return
        follow = {
            S.Assigning: (S.Owned, record.dstBroker, record.sourceBroker),
            S.Releasing: (
                S.Assigning if record.dstBroker else S.Free,
                record.dstBroker,
                record.sourceBroker,
            ),
        }.get(record.state)
        if follow:
            state, destination, source = follow
            nxt = ServiceUnitStateData(
                state=state,
                dstBroker=destination,
                sourceBroker=source,
                timestamp=self.now_ms,
                versionId=record.versionId + 1,
            )
            self.at(30, lambda: actor in self.silent or self.channel(bundle, nxt))
        elif record.state is S.Splitting:
            self.at(30, lambda: actor in self.silent or self._split(bundle, record))

    def _split(self, bundle: str, record: ServiceUnitStateData) -> None:
        children = sorted(record.splitServiceUnitToDestBroker)
        namespace = bundle.rsplit("/", 1)[0]
        rate = self.bundles.pop(bundle, 0.0)
        for child in children:
            name = f"{namespace}/{child}"
            if self.table.get(name) is None:
                self.bundles[name] = rate / len(children)
                self.channel(name, owned(record.sourceBroker, 1, self.now_ms))
        gone = replace_state(record, S.Deleted, self.now_ms)
        self.owners.pop(bundle, None)
        self.channel(bundle, gone)

    # ------------------------------------------------------------------ what came of it
    @property
    def decisions(self) -> list[dict]:
        """All decisions of the decision log, with the record they stand in."""
        lines = [msgspec.json.decode(r) for result in self.results for r in result.rounds]
        return [{**d, "log": line} for line in lines for d in line["plan"]["decisions"]]

    @property
    def answers(self) -> list[dict]:
        """Answers to operators' commands."""
        lines = [msgspec.json.decode(r) for result in self.results for r in result.rounds]
        return [line for line in lines if "command" in line]

    @property
    def rounds(self) -> list[dict]:
        lines = [msgspec.json.decode(r) for result in self.results for r in result.rounds]
        return [line for line in lines if line["type"] == "round"]

    def load_points(self) -> dict[str, float]:
        """Load of each broker in points, from who owns what."""
        loads = dict.fromkeys(self.brokers, 0.0)
        for bundle, owner in self.owners.items():
            loads[owner] += 100.0 * self.bundles[bundle] / self.brokers[owner]
        return loads


def owned(broker: str | None, version: int, ms: int, **more: object) -> ServiceUnitStateData:
    return ServiceUnitStateData(
        state=S.Owned, dstBroker=broker, timestamp=ms, versionId=version, **more
    )


def replace_state(record: ServiceUnitStateData, state: S, ms: int) -> ServiceUnitStateData:
    return msgspec.structs.replace(
        record,
        state=state,
        timestamp=ms,
        versionId=record.versionId + 1,
        splitServiceUnitToDestBroker=None,
        force=False,
        decisionId=None,
        reason=None,
    )


def bundle_names(namespace: str, count: int) -> list[str]:
    width = (1 << 32) // count
    edges = [k * width for k in range(count)] + [0xFFFFFFFF]
    return [f"{namespace}/0x{a:08x}_0x{b:08x}" for a, b in itertools.pairwise(edges)]


def world(brokers: int = 4, bundles: int = 16, seed: int = 1, **changes: object) -> World:
    """A cluster of equal brokers and bundles of random rates, about half full."""
    rng = random.Random(seed)
    names = bundle_names("t/n", bundles)
    rates = {name: round(min(rng.paretovariate(1.2), 5.0) * 1_000.0, 3) for name in names}
    capacity = 2.0 * sum(rates.values()) / brokers
    settings = replace(SETTINGS, **changes) if changes else SETTINGS
    return World({f"b{i}": capacity for i in range(brokers)}, rates, settings, seed)


def serving(w: World) -> World:
    """The world with every bundle owned."""
    w = w.run(1_500)
    w.ask(list(w.bundles))
    return w.run(1_500)


def of_broker(w: World, broker: str) -> set[str]:
    """Bundles that a broker serves now."""
    return {bundle for bundle, owner in w.owners.items() if owner == broker}


def replay(
    log: Sequence[RawRecord],
    cuts: Sequence[int],
    settings: Settings,
    shuffle: random.Random | None = None,
) -> tuple[bytes, bytes]:
    """Steps through a log cut at the given positions, the state going through its blob each time.

    Returns (all outputs, final blob).
    """
    blob = encode_state(new_state(CLUSTER, settings))
    log = sorted(log, key=lambda r: (r.ingest_ms, r.topic, r.partition, r.offset))
    writes: list[object] = []
    rounds: list[bytes] = []
    rejects: list[object] = []
    for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        batch = list(log[start:end])
        if not batch:
            continue
        now_ms = batch[-1].ingest_ms
        if shuffle is not None:
            shuffle.shuffle(batch)
        state: ClusterState = decode_state(blob, settings)
        result = step(state, batch, now_ms, settings)
        blob = encode_state(result.state)
        writes += [(w.key, w.value, w.decision_id, w.valid_until_ms) for w in result.records]
        rounds += result.rounds
        rejects += result.rejects
    return msgspec.json.encode((writes, rounds, rejects)), blob
