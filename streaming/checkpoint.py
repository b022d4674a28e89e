"""Looks into a checkpoint before Spark does, to say in one sentence what cannot work.

Reads what Spark keeps there: the query's id (`metadata`), the last batch that was planned, how far
it reads the log, and the number of state partitions (`offsets/N`). Local checkpoints only;
elsewhere the sink's own check has to do, at the first batch. Called by `streaming.job`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from controller.transport.embedded import EmbeddedLog
from controller.transport.port import Marker, Transport
from streaming.session import is_local_path

NEW_CHECKPOINT = (
    "name a new checkpoint folder (it rebuilds its memory from the log; ownership stands in the "
    "channel), or put back the folder as it was last"
)


class CheckpointError(ValueError):
    """The checkpoint belongs to something else, or to another log."""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What a checkpoint says about the query it belongs to."""

    query_id: str
    batch_id: int  # the last batch that was planned; -1 = none
    offset: Mapping[str, Any]  # of the source, as it wrote it: how far it has read; empty = none
    shuffle_partitions: int | None


def local_folder(checkpoint: str) -> Path | None:
    """The folder of a local checkpoint; None if it is elsewhere."""
    if not is_local_path(checkpoint):
        return None
    url = urlparse(checkpoint)
    return Path(unquote(url.path)) if url.scheme else Path(checkpoint)


def read_facts(checkpoint: str) -> CheckpointFacts | None:
    """Facts of an existing local checkpoint, None without one; raises `CheckpointError`.

    What stands there was perhaps cut off or edited, so anything may be of another type.
    """
    folder = local_folder(checkpoint)
    if folder is None or not (folder / "metadata").is_file():
        return None
    try:
        query_id = str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])
        batches = [int(p.name) for p in (folder / "offsets").glob("*") if p.name.isdecimal()]
        if not batches:
            return CheckpointFacts(query_id, -1, {}, None)
        last = max(batches)
        lines = (folder / "offsets" / str(last)).read_text(encoding="utf-8").splitlines()
        pinned = json.loads(lines[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
        offsets = [json.loads(line) for line in lines[2:]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged and cannot be read ({error}): {NEW_CHECKPOINT}"
        ) from error
    if len(offsets) != 1 or not isinstance(offsets[0], dict):
        raise CheckpointError(f"checkpoint {folder} belongs to another kind of query")
    return CheckpointFacts(query_id, last, offsets[0], int(pinned) if pinned else None)


def check_against_log(facts: CheckpointFacts, transport: Transport, shown: str) -> None:
    """Refuses a checkpoint of another kind of log, or one that has read further than it goes."""
    if not facts.offset:
        return
    if ("sequence" in facts.offset) != isinstance(transport, EmbeddedLog):
        raise CheckpointError(
            f"the checkpoint belongs to another kind of log than {shown}: use the log it was made "
            "with, or a new checkpoint folder"
        )
    for place, reached, end in _ahead(facts, transport):
        raise CheckpointError(
            f"the checkpoint has read up to {place} {reached}, but {shown} ends at {end}: it "
            "belongs to another log, or the topic was made anew. Use the log it was made with, or "
            "a new checkpoint folder."
        )


def _ahead(facts: CheckpointFacts, transport: Transport) -> Iterator[tuple[str, int, int]]:
    """Places of which the checkpoint knows more than the log has: where, how far, and the end."""
    if isinstance(transport, EmbeddedLog):
        end, reached = transport.end_sequence(), int(facts.offset["sequence"])
        if reached > end:
            yield "sequence", reached, end
        return
    present = transport.topics()
    for topic, offsets in sorted(facts.offset.items()):
        ends = transport.end_offsets(topic) if topic in present else {}
        for partition, reached in sorted(offsets.items()):
            if int(reached) > ends.get(int(partition), 0):
                where = f"topic {topic} partition {partition} offset"
                yield where, int(reached), ends.get(int(partition), 0)


def check_against_marker(query_id: str, last_batch: int, marker: Marker | None) -> None:
    """Refuses a checkpoint that is older than what was published from it.

    The batches after it would be taken for published already, and be skipped without a word.
    """
    if marker is not None and marker.query_id == query_id and marker.batch_id > last_batch:
        raise CheckpointError(
            f"the checkpoint was put back to batch {last_batch}, but batch {marker.batch_id} was "
            f"published from it already (see bundlectl log marker): {NEW_CHECKPOINT}"
        )


def check_adopting(is_own: bool, marker: Marker | None, log_path: str, may_adopt: bool) -> None:
    """Refuses a log that another checkpoint published to, where adopting is not wanted."""
    if marker is not None and not is_own and not may_adopt:
        raise CheckpointError(
            f"{log_path} was published to by another checkpoint of {marker.name}, and "
            "job.may_adopt is false: allow adopting, or use the checkpoint folder it was run with"
        )
