"""Settings of the agent's loop: how it talks to the transport, and what it reports of the broker.

The times of the protocol stand in `controller.agent.state`. Read by the runtime and by the signs
of life; `controller.config.sections` fills it from the [agent] table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Times and bounds of the loop, and contents of the load reports."""

    channel_topic: str = "bundle-state"
    reports_topic: str = "load-reports"
    commands_topic: str = "controller-commands"
    poll_interval_ms: int = 100  # pace of reading the channel; half of unheard_poll_ms or less
    read_records_max: int = 1_000  # per read, so that a long channel does not block the lease
    release_threads: int = 4  # closes that may run at once
    backoff_min_ms: int = 100  # first pause after a transport error, doubled each time
    backoff_max_ms: int = 2_000  # longest pause; well below the lease
    outbox_records_max: int = 10_000  # channel records waiting for the transport
    shutdown_wait_ms: int = 30_000  # for the bundles to be taken before the end; 0 = do not wait
    report_change_points: float = 0.0  # least change, in %, that makes a report due; 0 = any, none
    report_max_interval_ms: int = 60_000  # an older report is followed by one whatever has changed
    report_bundles_max: int = 0  # reports list only so many bundles, the largest; 0 = all
    report_excluded_namespaces: tuple[str, ...] = ("pulsar/system",)  # not among the largest
    topic_hashes_above: int = 500  # reports list the topics of bundles with more topics ...
    topic_loads_above_rate: float = 15_000.0  # ... or with more msg/s: half of what is split
    report_topics_max: int = 20_000  # topics listed in one report; some 30 bytes each
