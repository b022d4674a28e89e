"""Simulated brokers and their load, for the demo and for tests.

Rules: nothing here is a real server and nothing pretends to be; load is a pure function of
(seed, time), so that all processes see the same load of a bundle without talking to each other.
"""

from __future__ import annotations
