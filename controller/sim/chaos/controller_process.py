"""The controller as a simulated process: the production `step` in the stages of a micro-batch.

Stages are events of their own, so that a crash or a pause can fall between any two of them:
plan (the range is written to the checkpoint), decide, publish (with marker, under the lease),
commit (the state is written to the checkpoint). A batch that was planned but not committed runs
again after a restart, with the same records; its marker tells whether it was published before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core.inputs import RawRecord, StepResult
from controller.core.settings import Settings
from controller.core.state import ClusterState, decode_state, encode_state, new_state
from controller.core.step import step
from controller.sim.chaos.kernel import Process
from controller.sim.chaos.log import START_MS, SimLog
from controller.transport.errors import FencedError, LeaseHeldError
from controller.transport.port import Lease, Marker, OutRecord
from controller.wire.commands import Refused, Tick, encode_command

JOB = "bundle-controller"
DECISIONS = "decision-log"
Ends = dict[tuple[str, int], int]


@dataclass(slots=True)
class Checkpoint:
    """What is left of a job when its process dies."""

    query_id: str
    planned: int = 0  # number of the last planned batch
    starts: Ends = field(default_factory=dict)  # of the planned batch
    ends: Ends = field(default_factory=dict)
    batch_ms: int = 0  # the planned batch's own time
    committed: int = 0
    blob: bytes | None = None


@dataclass(slots=True)
class ControllerFaults:
    """What the controller suffers at the moment."""

    short_read: float = 0.0  # share of batches that miss the newest records of some partition
    stage_max_ms: int = 20  # a stage takes up to so long


@dataclass(slots=True)
class ControllerProcess(Process):
    """Leader or standby, whoever gets the lease."""

    log: SimLog = field(kw_only=True)
    cluster: str = field(kw_only=True)
    settings: Settings = field(kw_only=True)
    checkpoint: Checkpoint = field(kw_only=True)
    trigger_ms: int = 250
    lease_ttl_ms: int = 2_000
    faults: ControllerFaults = field(default_factory=ControllerFaults)
    lease: Lease | None = None
    holder: str = ""
    state: ClusterState | None = None
    is_fresh: bool = True  # has published nothing since it started
    next_tick_ms: int = 0

    def boot(self) -> None:
        """Begins to ask for the lease."""
        self.lease = None
        self.state = None
        self.is_fresh = True
        self.holder = f"{self.name}/{self.incarnation}"
        self.soon(1, self._keep_lease)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that the job reads."""
        of = self.settings
        return (of.channel_topic, of.commands_topic, of.reports_topic)

    def _keep_lease(self) -> None:
        """Asks for the lease, then renews it; a controller that loses it ends."""
        try:
            if self.lease is None:
                self.lease = self.log.acquire(JOB, self.holder, self.lease_ttl_ms)
                self.kernel.tell(self.name, f"leads, epoch {self.lease.epoch}")
                self._lead()
            else:
                self.lease = self.log.renew(self.lease, self.lease_ttl_ms)
        except LeaseHeldError:
            pass
        except FencedError:
            self._end("lost the lease")
            return
        self.soon(self.lease_ttl_ms // 3, self._keep_lease)

    def _end(self, why: str) -> None:
        """The process ends; what supervises it starts it again."""
        self.kernel.tell(self.name, f"ends: {why}")
        self.kill()
        self.kernel.later(500, self.start)

    def _lead(self) -> None:
        blob = self.checkpoint.blob
        if blob is None:
            self.state = new_state(self.cluster, self.settings)
        else:
            self.state = decode_state(blob, self.settings)
        every = self.settings.rounds.upkeep_interval_ms
        self.next_tick_ms = (self.log.now_ms() // every + 1) * every
        self.soon(1, self._tick)
        if self.checkpoint.planned > self.checkpoint.committed:
            self.kernel.tell(self.name, f"runs batch {self.checkpoint.planned} again")
            self._decide_soon()
        else:
            self.soon(self.trigger_ms, self._plan)

    def _tick(self) -> None:
        """The driver's ticker: one tick command for each tick that has come due."""
        rounds = self.settings.rounds
        if self.log.now_ms() >= self.next_tick_ms + rounds.settle_ms:
            value = encode_command(Tick())
            self.log.append([OutRecord(self.settings.commands_topic, f"{self.cluster}/t", value)])
            while self.next_tick_ms + rounds.settle_ms <= self.log.now_ms():
                self.next_tick_ms += rounds.upkeep_interval_ms
        wait_ms = self.next_tick_ms + rounds.settle_ms - self.log.now_ms()
        self.soon(max(1, wait_ms), self._tick)

    def _plan(self) -> None:
        """Writes the range of the next batch into the checkpoint; nothing new, no batch."""
        kept = self.checkpoint
        ends = {(t, p): end for t in self.topics for p, end in enumerate(self.log.ends[t])}
        if self.kernel.chance(self.faults.short_read):
            late = self.kernel.random.choice(sorted(ends))
            start = kept.ends.get(late, 0)
            ends[late] = self.kernel.random.randint(start, ends[late])
        if ends == kept.ends:
            self.soon(self.trigger_ms, self._plan)
            return
        kept.starts, kept.ends = kept.ends, ends
        kept.planned += 1
        kept.batch_ms = self.log.now_ms()
        self._decide_soon()

    def _decide_soon(self) -> None:
        self.soon(self._stage_ms(), self._decide)

    def _stage_ms(self) -> int:
        return self.kernel.random.randint(0, self.faults.stage_max_ms)

    def _decide(self) -> None:
        assert self.state is not None
        kept = self.checkpoint
        inputs = [
            RawRecord(r.ingest_ms, r.topic, r.partition, r.offset, r.key, r.value)
            for (topic, partition), end in kept.ends.items()
            for r in self.log.read(
                topic, partition, kept.starts.get((topic, partition), 0), 1_000_000
            )
            if r.offset < end
        ]
        result = step(self.state, inputs, kept.batch_ms, self.settings)
        self.soon(self._stage_ms(), lambda: self._publish(result))

    def _publish(self, result: StepResult) -> None:
        """As the job's sink: once by effect, under the lease, late writes refused."""
        kept, marker = self.checkpoint, self.log.markers.get(JOB)
        is_own = marker is not None and marker.query_id == kept.query_id
        if self.is_fresh and is_own and marker is not None and marker.batch_id >= kept.planned:
            self.kernel.tell(self.name, f"batch {kept.planned} was published before")
            self.soon(self._stage_ms(), lambda: self._commit(result))
            return
        assert self.lease is not None
        headers = (("epoch", str(self.lease.epoch).encode()),)
        records: list[OutRecord] = []
        for write in result.records:
            if write.valid_until_ms < START_MS + self.clock_ms():
                refused = Refused(
                    bundle=write.key,
                    versionId=write.version,
                    decisionId=write.decision_id,
                    reason="expired",
                    who="sink",
                )
                topic, value = self.settings.commands_topic, encode_command(refused)
                records.append(OutRecord(topic, f"{self.cluster}/_sink", value))
            else:
                topic = self.settings.channel_topic
                records.append(OutRecord(topic, write.key, write.value, headers))
        records += [OutRecord(DECISIONS, self.cluster, line) for line in result.rounds]
        if records:
            new = Marker(JOB, kept.query_id, kept.planned, self.lease.epoch)
            try:
                self.log.publish(records, new, self.lease)
            except FencedError:
                self._end("is fenced")
                return
            self.is_fresh = False
        self.soon(self._stage_ms(), lambda: self._commit(result))

    def _commit(self, result: StepResult) -> None:
        self.state = result.state
        self.checkpoint.blob = encode_state(result.state)
        self.checkpoint.committed = self.checkpoint.planned
        self.soon(self.trigger_ms, self._plan)
