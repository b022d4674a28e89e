"""The marker of a job on Kafka: the last committed record of its markers topic."""

from __future__ import annotations

import msgspec

from controller.transport.errors import CorruptError, UnknownTopicError
from controller.transport.kafka.reading import PartitionReader
from controller.transport.kafka.topics import markers_topic
from controller.transport.port import Marker

STEP_FIRST = 16  # offsets from the end to look at first; a marker takes two with its transaction
STEP_FACTOR = 16


def encoded_marker(marker: Marker) -> bytes:
    """The marker as JSON."""
    return msgspec.json.encode(marker)


def last_marker(reader: PartitionReader, name: str) -> Marker | None:
    """The last marker; None if there is none. Looks backwards from the end, in growing steps."""
    topic = markers_topic(name)
    try:
        start, end = reader.starts(topic)[0], reader.ends(topic)[0]
    except UnknownTopicError:
        return None
    step = STEP_FIRST
    while True:
        begin = max(start, end - step)
        found = [one for one in reader.read(topic, 0, begin, end - begin + 1) if one.value]
        if found:
            return _decoded(topic, found[-1].offset, found[-1].value or b"")
        if begin == start:
            return None
        step *= STEP_FACTOR


def _decoded(topic: str, offset: int, value: bytes) -> Marker:
    try:
        return msgspec.json.decode(value, type=Marker)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(
            f"the record at offset {offset} of topic {topic} is no marker ({error}): something "
            "else writes there; find it, and start with a new checkpoint and a new job.name"
        ) from error
