"""How a process of ours writes its log: one line of key=value per event on stderr, in UTC."""

from __future__ import annotations

import logging
import sys

import structlog

from controller.transport.kafka.client_log import forward


def configure_logs() -> None:
    """For processes that run for long: the job, agents, the supervisor.

    Warnings of the Kafka client go there too.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    forward()
