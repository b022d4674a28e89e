"""Adapter between Spark's `applyInPandasWithState` and `controller.core.step`.

One group is one cluster. State is one compressed blob per cluster, because Spark's state schema
cannot evolve: `v` is the version of the envelope, the blob inside has its own. A warm worker keeps
the decoded state and uses it only if Spark hands it the very bytes it came from, so a replayed or
moved batch is decoded from what Spark committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.state import GroupState

from controller.core.inputs import ChannelWrite, RawRecord, StepResult
from controller.core.settings import Settings
from controller.core.state import ClusterState, decode_state, encode_state, new_state
from controller.core.step import reject_unrouted, step
from controller.wire.rejects import Reject, encode_reject
from streaming.faults import Fault
from streaming.routing import UNROUTED

STATE_SCHEMA = "v int, blob binary"
OUTPUT_SCHEMA = (
    "cluster string, seq int, topic_kind string, key string, value binary, "
    "decision_id string, version long, valid_until_ms long"
)
OUTPUT_COLUMNS = [part.split()[0] for part in OUTPUT_SCHEMA.split(", ")]
ENVELOPE = 1
LENGTH_BYTES = 8  # the uncompressed length stands before the compressed bytes

Row = tuple[str, int, str, str, bytes, str, int, int]
StepFunction = Callable[[Any, Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]

# Level 3 takes a third off level 1 (100,000 bundles: 2.8 against 4.1 MB) for some 40 ms; Spark
# carries the blob in and out at about 50 ms/MB.
_codec = pa.Codec("zstd", compression_level=3)
_warm: dict[str, tuple[bytes, ClusterState]] = {}


def make_operator(settings: Mapping[str, Settings], fault: Fault) -> StepFunction:
    """The function of the stateful operator, for clusters with the given settings."""
    limits = next(iter(settings.values())).limits

    def run_group(
        key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        cluster, records = key[0], raw_records(frames)
        if cluster == UNROUTED:
            yield output_frame(reject_rows(cluster, 0, reject_unrouted(records, limits)))
            return
        before = load_state(cluster, state, settings[cluster])
        now_ms = state.getCurrentProcessingTimeMs()
        result = step(before, records, now_ms, settings[cluster])
        blob = pack(encode_state(result.state))
        state.update((ENVELOPE, blob))
        keep_state(cluster, blob, result.state)
        fault.reach("operator", _batch_id())
        yield output_frame(result_rows(cluster, result))

    return run_group


def make_idle_operator() -> StepFunction:
    """An operator that does nothing with its rows: the floor that benches compare with."""

    def run_group(
        key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        for _ in frames:
            pass
        return iter(())

    return run_group


def raw_records(frames: Iterable[pd.DataFrame]) -> list[RawRecord]:
    """Records of a group; `step` puts them into order."""
    records: list[RawRecord] = []
    for frame in frames:
        columns = [frame[name].tolist() for name in ("ingest_ms", "topic", "partition", "offset")]
        columns += [frame["key"].tolist(), frame["value"].tolist()]
        records.extend(map(RawRecord, *columns))
    return records


def load_state(cluster: str, state: GroupState, settings: Settings) -> ClusterState:
    """The cluster's state as Spark has it, decoded at most once per blob and worker."""
    if not state.exists:
        return new_state(cluster, settings)
    blob = bytes(state.get[1])
    warm = _warm.get(cluster)
    if warm is not None and warm[0] == blob:
        return warm[1]
    return decode_state(unpack(blob), settings)


def keep_state(cluster: str, blob: bytes, state: ClusterState) -> None:
    """Keeps the decoded state for the next batch.

    In a function of the module, because the operator itself is pickled: a global that it names is
    a copy of its own in every task.
    """
    _warm[cluster] = (blob, state)


def pack(plain: bytes) -> bytes:
    """Compresses; equal input gives equal output."""
    return len(plain).to_bytes(LENGTH_BYTES, "little") + _codec.compress(plain, asbytes=True)


def unpack(blob: bytes) -> bytes:
    """Reverses `pack`."""
    length = int.from_bytes(blob[:LENGTH_BYTES], "little")
    return _codec.decompress(memoryview(blob)[LENGTH_BYTES:], length, asbytes=True)


def result_rows(cluster: str, result: StepResult) -> list[Row]:
    """All effects of a step as rows, in the order in which they are to be published."""
    rows: list[Row] = [
        (cluster, n, _kind(w), w.key, w.value or b"", w.decision_id, w.version, w.valid_until_ms)
        for n, w in enumerate(result.records)
    ]
    for line in result.rounds:
        rows.append((cluster, len(rows), "decision", cluster, line, "", 0, 0))
    rows.extend(reject_rows(cluster, len(rows), result.rejects))
    snapshot = msgspec.json.encode(result.snapshot)
    rows.append((cluster, len(rows), "snapshot", cluster, snapshot, "", 0, 0))
    return rows


def _kind(write: ChannelWrite) -> str:
    """Kind of a channel write's row; a tombstone has one of its own, because rows hold no nulls."""
    return "tombstone" if write.value is None else "channel"


def reject_rows(cluster: str, first: int, rejects: Sequence[Reject]) -> list[Row]:
    """Dead letters as rows."""
    return [
        (cluster, first + n, "reject", r.key or "", encode_reject(r), "", 0, 0)
        for n, r in enumerate(rejects)
    ]


def output_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows with the columns of `OUTPUT_SCHEMA`.

    No nulls: Spark joins the frames of several groups, and pandas would guess the types of
    columns that hold nothing else.
    """
    return pd.DataFrame(rows, columns=OUTPUT_COLUMNS).astype({"seq": "int32"})


def _batch_id() -> int:
    context = TaskContext.get()
    text = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(text) if text else -1
