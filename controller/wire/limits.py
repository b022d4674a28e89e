"""Limits on what a peer may send; the core's settings carry them, every decoder checks them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Largest record, list, text and number that is believed. Beyond them a record is rejected."""

    record_bytes_max: int = 1_048_576  # bytes; checked before anything is parsed
    bundles_per_report_max: int = 20_000  # bundles; Pulsar advises well below 1 000 per broker
    value_max: float = 1e15  # msg/s, byte/s, MB, Kbit/s alike: no machine comes near it
    count_max: int = 10_000_000  # producers, consumers or topics of one bundle
    text_max: int = 1_024  # characters of a name
    topic_hashes_max: int = 20_000  # hashes given for one bundle


DEFAULT_LIMITS = WireLimits()
