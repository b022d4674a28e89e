"""Looks into a checkpoint before Spark does, to say in one sentence what cannot work.

Reads three facts that Spark keeps there: the query's id (`metadata`), how far the log was read
and with how many state partitions (`offsets/N`). Local checkpoints only; elsewhere Spark's own
errors have to do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from streaming.session import is_local_path


class CheckpointError(ValueError):
    """The checkpoint belongs to something else, or to another log."""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What a checkpoint says about the query it belongs to."""

    query_id: str
    sequence: int  # the last record that a planned batch reaches
    shuffle_partitions: int | None


def local_folder(checkpoint: str) -> Path | None:
    """The folder of a local checkpoint; None if it is elsewhere."""
    if not is_local_path(checkpoint):
        return None
    url = urlparse(checkpoint)
    return Path(unquote(url.path)) if url.scheme else Path(checkpoint)


def read_facts(checkpoint: str) -> CheckpointFacts | None:
    """Facts of an existing local checkpoint, None without one; raises `CheckpointError`."""
    folder = local_folder(checkpoint)
    if folder is None or not (folder / "metadata").is_file():
        return None
    try:
        query_id = json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"]
        batches = [int(p.name) for p in (folder / "offsets").glob("*") if p.name.isdecimal()]
        if not batches:
            return CheckpointFacts(query_id, 0, None)
        lines = (folder / "offsets" / str(max(batches))).read_text(encoding="utf-8").splitlines()
        pinned = json.loads(lines[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
        offsets = [json.loads(line) for line in lines[2:]]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise CheckpointError(f"checkpoint {folder} cannot be read: {error}") from error
    if len(offsets) != 1 or not isinstance(offsets[0], dict) or "sequence" not in offsets[0]:
        raise CheckpointError(f"checkpoint {folder} belongs to another kind of query")
    return CheckpointFacts(query_id, offsets[0]["sequence"], int(pinned) if pinned else None)


def check_against_log(facts: CheckpointFacts, end_sequence: int, log_path: str) -> None:
    """Refuses a checkpoint that has read further than the log goes."""
    if facts.sequence > end_sequence:
        raise CheckpointError(
            f"the checkpoint has read up to sequence {facts.sequence}, but {log_path} ends at "
            f"{end_sequence}: it belongs to another log. Use the log it was made with, or a new "
            "checkpoint folder."
        )
