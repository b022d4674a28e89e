"""The embedded transport: an append-only log in one SQLite file, for many processes."""

from controller.transport.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
