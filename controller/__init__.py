"""Load-balance controller for Apache Pulsar-style brokers.

The inner rooms (model, wire, channel, strategies, core) are pure: same inputs, same bytes out.
The outer rooms (transport, agent, sim, config, demo, cli) hold every contact with the world.
"""

from __future__ import annotations

__version__ = "0.1.0"
