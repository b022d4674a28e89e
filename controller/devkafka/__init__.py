"""A real Kafka broker of one node on this machine, for development, the demo and the tests.

Rules: it listens on 127.0.0.1 only, has no replicas and little memory, and ends with the process
that started it. Its jars come from `controller.jars`. Never for data that anybody needs.
"""

from __future__ import annotations

from controller.devkafka.broker import Broker
from controller.devkafka.errors import BrokerError

__all__ = ["Broker", "BrokerError"]
