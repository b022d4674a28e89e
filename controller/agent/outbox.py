"""What waits to be appended: channel records and commands in order, and one sign of life.

Rules: records of the channel and commands wait until the log has them, because each answers
something; a sign of life is about this moment, so a newer one replaces it and an append that fails
loses it. What is too much is refused: the controller repairs what stays in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.transport.port import OutRecord


@dataclass(slots=True)
class Outbox:
    """See the module text; used by the loop's thread only."""

    records_max: int
    channel: list[OutRecord] = field(default_factory=list)
    commands: list[OutRecord] = field(default_factory=list)
    sign: OutRecord | None = None

    def put_channel(self, record: OutRecord) -> bool:
        """Adds a record of the channel; False if there is no room."""
        return _put(self.channel, record, self.records_max)

    def put_command(self, record: OutRecord) -> bool:
        """Adds a command; False if there is no room."""
        return _put(self.commands, record, self.records_max)

    def fence(self) -> None:
        """Forgets all that was to be said in the belief that the channel is known."""
        self.channel = []
        self.sign = None

    def take(self) -> tuple[list[OutRecord], bool]:
        """All that waits, and whether a sign of life is in it, which waits no more."""
        waiting = self.channel + self.commands
        sign, self.sign = self.sign, None
        if sign is not None:
            waiting.append(sign)
        return waiting, sign is not None

    def acknowledged(self) -> None:
        """The log has what was taken."""
        self.channel, self.commands = [], []

    @property
    def is_empty(self) -> bool:
        """True if nothing waits."""
        return not (self.channel or self.commands or self.sign)


def _put(records: list[OutRecord], record: OutRecord, most: int) -> bool:
    if len(records) >= most:
        return False
    records.append(record)
    return True
