"""What can go wrong in a transport; each message names the file, the cause and the remedy.

TransportError
├── BusyError            others kept the store locked for too long
├── DiskFullError        no room; nothing was written
├── CorruptError         torn, damaged, or not a log at all
├── NotWritableError     read-only file or folder
├── SchemaError          made by a newer program
├── ClosedError          used after close
├── UnknownTopicError
├── OffsetOutOfRangeError  removed by retention, or past the end of the log
├── UnreachableError     no broker answers in time; the write may have happened or not
├── AuthenticationError  a broker answers, but does not let us in
├── CredentialsError     a secret or certificate of ours is missing or unusable
├── TopicSettingsError   a topic exists, but not as it must be
├── CommitUnknownError   a commit got no answer: published or not, the next start finds out
├── FencedError          another holder has the lease; nothing was written
└── LeaseHeldError       another holder has it, for so long
"""

from __future__ import annotations


class TransportError(Exception):
    """Something that the caller may retry, report or die of, but not ignore."""


class BusyError(TransportError):
    """Others kept the store locked for too long; nothing was written."""


class DiskFullError(TransportError):
    """No room for the write; nothing of it was written, what was acknowledged is there."""


class CorruptError(TransportError):
    """The file is torn, damaged, or not a log."""


class NotWritableError(TransportError):
    """The file or its folder cannot be written."""


class SchemaError(TransportError):
    """The file was made by a newer program."""


class ClosedError(TransportError):
    """The transport was closed."""


class UnknownTopicError(TransportError):
    """The topic or partition does not exist."""


class OffsetOutOfRangeError(TransportError):
    """A reader asked for records that retention removed, or that the log never had."""


class UnreachableError(TransportError):
    """No server answers in time. What was being written may be there, or not."""


class AuthenticationError(TransportError):
    """A server answers, but does not let us in: password, certificate or rights."""


class CredentialsError(TransportError):
    """A secret or certificate that the configuration names is missing or unusable."""


class TopicSettingsError(TransportError):
    """A topic exists with settings under which the controller would go wrong sooner or later."""


class CommitUnknownError(TransportError):
    """A commit got no answer; only a new start can find out whether it took effect."""


class FencedError(TransportError):
    """The writer's lease is no longer its own; nothing was written."""


class LeaseHeldError(TransportError):
    """Somebody else holds the lease."""

    def __init__(self, name: str, holder: str, remaining_ms: int) -> None:
        super().__init__(
            f"lease {name} is held by {holder} for another {remaining_ms} ms; "
            "stop that controller, or wait until its lease runs out"
        )
        self.holder = holder
        self.remaining_ms = remaining_ms
