"""The demo: a real job, simulated brokers as processes, and an observer that trusts neither.

Rules: the observer reads the channel and the brokers' own logs, never the controller's memory;
every process that is started is ended, however the demo ends. Called by `bundlectl demo`.
"""

from __future__ import annotations
