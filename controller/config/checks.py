"""Relations between keys that no single range can express, each with its reason and remedy.

Every check yields sentences that name the keys, their values and what to change; all are shown
together. Used by `controller.config.load`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from controller.config.errors import nearest
from controller.config.sections import JobConfig
from controller.strategies.registry import PLACE, SHED, SPLIT

Check = Callable[[JobConfig], Iterator[str]]


def problems_in(config: JobConfig) -> list[str]:
    """All relations that do not hold."""
    return [problem for check in CHECKS for problem in check(config)]


def takeover_needed_ms(config: JobConfig) -> int:
    """The shortest safe take-over time: by then a silent broker has surely fenced itself.

    Lease (stretched by the worst drift of two clocks), one heartbeat that may have been on its
    way, and two polls: one to notice, one to read the verdict back. By as much as a poll the
    watchdog may be late after the machine was suspended; otherwise it wakes at the deadline.
    """
    agent = config.agent
    return (
        _stretched(config, agent.lease_ms)
        + agent.heartbeat_interval_ms
        + 2 * agent.poll_interval_ms
    )


def grace_needed_ms(config: JobConfig) -> int:
    """The shortest safe grace: by then a broker that is not heard has read or fenced itself.

    It reads, or stops, within unheard_poll_ms of its clock; one poll is left for the carrying
    out.
    """
    agent = config.agent
    return _stretched(config, agent.unheard_poll_ms) + agent.poll_interval_ms


def settle_needed_ms(config: JobConfig) -> int:
    """The shortest safe time from being heard again to trusting it.

    A take-over may have been decided just before. The sink refuses it once it is older than
    decision_ttl_ms; the append itself may still wait for the log's lock, or for Kafka's answer.
    """
    ttl_ms = config.balance.actions.decision_ttl_ms
    return _stretched(config, ttl_ms + config.transport.busy_wait_ms)


def _stretched(config: JobConfig, ms: int) -> int:
    """A time of one clock as the slowest other one may measure it."""
    return math.ceil(ms * (1.0 + config.agent.clock_drift_max_ratio))


def _takeover(config: JobConfig) -> Iterator[str]:
    takeover, needed = config.balance.liveness.takeover_after_ms, takeover_needed_ms(config)
    agent = config.agent
    if takeover < needed:
        yield (
            f"[balance.liveness] takeover_after_ms = {takeover} is too short: a silent broker may "
            f"still be serving. With agent.lease_ms = {agent.lease_ms}, "
            f"agent.clock_drift_max_ratio = {agent.clock_drift_max_ratio}, "
            f"agent.heartbeat_interval_ms = {agent.heartbeat_interval_ms} and "
            f"agent.poll_interval_ms = {agent.poll_interval_ms} it must be at least {needed}; "
            "raise it, or lower agent.lease_ms"
        )


def _late(config: JobConfig) -> Iterator[str]:
    live, beat = config.balance.liveness, config.agent.heartbeat_interval_ms
    lowest, highest = 2 * beat, live.takeover_after_ms - 2 * beat
    if not lowest <= live.late_after_ms <= highest:
        yield (
            f"[balance.liveness] late_after_ms = {live.late_after_ms} must lie between {lowest} "
            f"(2 x agent.heartbeat_interval_ms, {beat}) and {highest} (takeover_after_ms, "
            f"{live.takeover_after_ms}, less 2 heartbeats): one lost heartbeat must not make a "
            "broker late, and lateness of many must be seen before any is taken over"
        )


def _report_age(config: JobConfig) -> Iterator[str]:
    ttl, every = config.balance.liveness.report_ttl_ms, config.agent.report_interval_ms
    if ttl < 2 * every:
        yield (
            f"[balance.liveness] report_ttl_ms = {ttl} must be at least twice "
            f"agent.report_interval_ms = {every}, or brokers freeze between two reports; raise it"
        )
    longest = config.agent.report_max_interval_ms
    if config.agent.report_change_points > 0.0 and ttl <= longest + every:
        yield (
            f"[balance.liveness] report_ttl_ms = {ttl} must be above agent.report_max_interval_ms "
            f"= {longest} and agent.report_interval_ms = {every} together, or brokers whose load "
            "does not change freeze; raise it, or lower agent.report_max_interval_ms"
        )


def _ticks(config: JobConfig) -> Iterator[str]:
    rounds = config.balance.rounds
    if rounds.interval_ms % rounds.upkeep_interval_ms:
        whole = max(1, round(rounds.interval_ms / rounds.upkeep_interval_ms))
        yield (
            f"[balance.rounds] interval_ms = {rounds.interval_ms} must be a multiple of "
            f"upkeep_interval_ms = {rounds.upkeep_interval_ms}, because rounds happen at upkeep "
            f"ticks; for example interval_ms = {whole * rounds.upkeep_interval_ms}"
        )
    if rounds.settle_ms >= rounds.upkeep_interval_ms:
        yield (
            f"[balance.rounds] settle_ms = {rounds.settle_ms} must be less than "
            f"upkeep_interval_ms = {rounds.upkeep_interval_ms}, or a tick is due before the one "
            "before it has run; lower settle_ms"
        )


def _agent(config: JobConfig) -> Iterator[str]:
    agent = config.agent
    if agent.unheard_poll_ms < 2 * agent.poll_interval_ms:
        yield (
            f"[agent] unheard_poll_ms = {agent.unheard_poll_ms} must be at least twice "
            f"poll_interval_ms = {agent.poll_interval_ms}, or one late poll stops a broker whose "
            "signs of life do not get through; raise it"
        )
    if agent.takeover_grace_ms < grace_needed_ms(config):
        yield (
            f"[agent] takeover_grace_ms = {agent.takeover_grace_ms} is too short: an old owner "
            f"may still be serving. With unheard_poll_ms = {agent.unheard_poll_ms}, "
            f"clock_drift_max_ratio = {agent.clock_drift_max_ratio} and poll_interval_ms = "
            f"{agent.poll_interval_ms} it must be at least {grace_needed_ms(config)}; raise it"
        )
    settle_ms = settle_needed_ms(config)
    if agent.heard_settle_ms < settle_ms:
        yield (
            f"[agent] heard_settle_ms = {agent.heard_settle_ms} is too short: a take-over that was "
            "decided before may still be under way. With balance.actions.decision_ttl_ms = "
            f"{config.balance.actions.decision_ttl_ms}, transport.busy_wait_ms = "
            f"{config.transport.busy_wait_ms} and clock_drift_max_ratio = "
            f"{agent.clock_drift_max_ratio} it must be at least {settle_ms}; raise it"
        )
    for key in ("poll_interval_ms", "backoff_max_ms", "busy_wait_ms"):
        value = getattr(agent, key)
        if 2 * value > agent.lease_ms:
            yield (
                f"[agent] {key} = {value} must be at most half of lease_ms = {agent.lease_ms}, "
                "or one slow read costs the lease; lower it"
            )
    if agent.backoff_min_ms > agent.backoff_max_ms:
        yield (
            f"[agent] backoff_min_ms = {agent.backoff_min_ms} must not be above "
            f"backoff_max_ms = {agent.backoff_max_ms}; lower it"
        )


def _in_flight(config: JobConfig) -> Iterator[str]:
    """An owner that reads nothing since before its order has fenced itself by then."""
    timeout, needed = config.balance.actions.in_flight_timeout_ms, takeover_needed_ms(config)
    if timeout < needed:
        yield (
            f"[balance.actions] in_flight_timeout_ms = {timeout} is too short: an owner that has "
            f"not read its order may still be serving when it is repaired. With agent.lease_ms = "
            f"{config.agent.lease_ms} it must be at least {needed}, as takeover_after_ms; raise "
            "it, or lower agent.lease_ms"
        )


def _strategies(config: JobConfig) -> Iterator[str]:
    balance = config.balance
    named = (("shed", balance.shed, SHED), ("place", balance.place, PLACE))
    for kind, name, known in (*named, ("split", balance.split, SPLIT)):
        if name not in known:
            yield f"[balance] {kind} = {name!r} is no strategy; {nearest(name, known)}"
    if balance.avg.low_threshold_points >= balance.avg.high_threshold_points:
        yield (
            f"[balance.avg] low_threshold_points = {balance.avg.low_threshold_points:g} must be "
            f"less than high_threshold_points = {balance.avg.high_threshold_points:g}; lower it"
        )
    weights = balance.weights
    if not (weights.cpu + weights.direct_memory + weights.bandwidth_in + weights.bandwidth_out):
        yield "[balance.weights] all weights are 0, so every load is 0; set one above 0"


def _windows(config: JobConfig) -> Iterator[str]:
    windows, actions = config.balance.windows, config.balance.actions
    if actions.tombstone_delay_ms < actions.in_flight_timeout_ms:
        yield (
            f"[balance.actions] tombstone_delay_ms = {actions.tombstone_delay_ms} must be at "
            f"least in_flight_timeout_ms = {actions.in_flight_timeout_ms}, so that a late "
            "duplicate of a record in flight does not bring a bundle back; raise it"
        )
    if windows.short_samples > windows.long_samples:
        yield (
            f"[balance.windows] short_samples = {windows.short_samples} must not be above "
            f"long_samples = {windows.long_samples}; lower it"
        )
    if actions.in_flight_per_broker_max > actions.in_flight_max:
        yield (
            f"[balance.actions] in_flight_per_broker_max = {actions.in_flight_per_broker_max} "
            f"must not be above in_flight_max = {actions.in_flight_max}; lower it"
        )


def _lease(config: JobConfig) -> Iterator[str]:
    if 0 < config.lease.wait_ms < config.lease.ttl_ms:
        yield (
            f"[lease] wait_ms = {config.lease.wait_ms} must be 0 or at least ttl_ms = "
            f"{config.lease.ttl_ms}, or a restart after a crash gives up too early; raise it"
        )


def _clusters(config: JobConfig) -> Iterator[str]:
    if not config.clusters:
        yield "[clusters] no cluster is named; add a table [clusters.<name>]"
    for name in config.clusters:
        if not name or name.startswith("_") or any(c in "/ \t\n" for c in name):
            yield (
                f"[clusters] {name!r} is no name for a cluster: no slash, no space, and no "
                "underscore at its beginning; rename it"
            )
    topics = config.topics
    used = Counter([topics.commands, topics.decision_log, topics.dead_letters])
    used.update([topics.load_reports])
    for name, cluster in config.clusters.items():
        used.update([config.channel_topic(name), *cluster.reports_topics])
    for topic, count in sorted(used.items()):
        if count > 1 or not topic:
            yield (
                f"topic {topic!r} is named {count} times under [topics] and [clusters]; give each "
                "purpose and each cluster a topic of its own"
            )


CHECKS: tuple[Check, ...] = (
    _takeover,
    _late,
    _report_age,
    _ticks,
    _agent,
    _in_flight,
    _strategies,
    _windows,
    _lease,
    _clusters,
)
