"""Broker agent: obeys the bundle-state channel on behalf of one broker.

Rules: the core (`events`, `state`, `core`) is pure and decides nothing about load; the runtime
does all contact with the world; third parties bring their own broker through `port.Broker`.
"""

from __future__ import annotations
