"""What can go wrong with jars."""

from __future__ import annotations


class JarsError(Exception):
    """A jar cannot be had; the text is one sentence: which, from where, why, and the remedies."""
