"""Where the log is, and how to open it: the one place that knows all adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from controller.transport.embedded import EmbeddedLog
from controller.transport.errors import TransportError
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.port import Transport


@dataclass(frozen=True, slots=True)
class TransportPlace:
    """[transport]: kind and address of the log. Plain values: it travels to other processes."""

    kind: Literal["embedded", "kafka"] = "embedded"
    path: str = "data/bundle-log.db"
    durability: Literal["process", "power"] = "process"
    busy_wait_ms: int = 15_000
    kafka: KafkaSettings = field(default_factory=KafkaSettings)

    @property
    def shown(self) -> str:
        """For messages: the file, or the servers."""
        return self.path if self.kind == "embedded" else f"Kafka at {self.kafka.bootstrap_servers}"

    def with_busy_wait(self, busy_wait_ms: int) -> TransportPlace:
        """The same log for somebody who waits so long for it."""
        return replace(self, busy_wait_ms=busy_wait_ms)


def open_transport(
    place: TransportPlace, reached: Callable[[str], None] = lambda stage: None
) -> Transport:
    """Opens the log; raises `TransportError`s, each with its remedy.

    `reached` is told the stages of a publish that are worth a test: `mid_send`, `before_commit`.
    """
    if place.kind == "embedded":
        return EmbeddedLog(place.path, durability=place.durability, busy_wait_ms=place.busy_wait_ms)
    try:
        from controller.transport.kafka.log import KafkaLog
    except ModuleNotFoundError as error:
        raise TransportError(
            f"transport.kind is kafka, but {error.name} is not installed: "
            "pip install 'bundle-controller[kafka]'"
        ) from error
    return KafkaLog(place.kafka, place.busy_wait_ms, reached=reached)
