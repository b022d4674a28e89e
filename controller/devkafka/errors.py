"""What can go wrong with the development broker."""

from __future__ import annotations


class BrokerError(Exception):
    """It does not start or run; the text has the reason, and the last lines of its log."""
