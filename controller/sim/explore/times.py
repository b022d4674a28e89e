"""The times of the explored system, in units of one abstract step of time.

All timeouts are whole units and as short as the inequalities of a real configuration allow
(`controller.config.checks`, with a drift of 0 and a poll that takes no time of its own):

- an unheard agent serves for 1 unit after its last read, and the grace of its successor is 2;
- the lease is 3 units, longer than the grace, and a broker is taken over after 4 units of silence;
- what was decided is published within 1 unit or not at all, and an agent that was silent trusts
  being heard again after 2;
- signs of life are due at each read in a new unit.

Called by all modules of this room.
"""

from __future__ import annotations

from controller.agent.state import AgentSettings
from controller.core.settings import ActionSettings, LivenessSettings, RoundSettings, Settings

UNIT_MS = 1_000
AGENT_NOW_MS = 1_000 * UNIT_MS  # what an agent's clock shows at "now", always
CORE_NOW_MS = 1_000_000 * UNIT_MS  # what the log's clock shows at "now", always

CLUSTER = "sim"
NAMESPACE = "small/ns"
PARENT = f"{NAMESPACE}/0x00000000_0xffffffff"
LEFT = f"{NAMESPACE}/0x00000000_0x7fffffff"
RIGHT = f"{NAMESPACE}/0x7fffffff_0xffffffff"
BROKERS = ("b1", "b2")
CHANNEL, COMMANDS, REPORTS = "bundle-state-sim", "controller-commands", "load-reports"

AGENT = AgentSettings(
    heartbeat_interval_ms=UNIT_MS // 2,
    report_interval_ms=UNIT_MS // 2,
    lease_ms=3 * UNIT_MS,
    unheard_poll_ms=UNIT_MS,
    heard_settle_ms=2 * UNIT_MS,
    takeover_grace_ms=2 * UNIT_MS,
    retry_ms=UNIT_MS,
    split_retry_ms=UNIT_MS,
)

CORE = Settings(
    rounds=RoundSettings(
        interval_ms=10**12,  # no balancing rounds: loads are not explored, operators' orders are
        upkeep_interval_ms=UNIT_MS,
        settle_ms=0,
        warmup_ms=UNIT_MS,
    ),
    liveness=LivenessSettings(
        report_ttl_ms=100 * UNIT_MS,
        late_after_ms=2 * UNIT_MS,
        takeover_after_ms=4 * UNIT_MS,
        forget_after_ms=100 * UNIT_MS,
    ),
    actions=ActionSettings(
        in_flight_timeout_ms=4 * UNIT_MS,
        tombstone_delay_ms=100 * UNIT_MS,
        pending_timeout_ms=100 * UNIT_MS,
        decision_ttl_ms=UNIT_MS,
        bundle_cooldown_ms=0,
        no_return_ms=0,
    ),
    reports_topic=REPORTS,
    commands_topic=COMMANDS,
    channel_topic=CHANNEL,
)

LAG_MAX = 2  # units for which a leader may be silent; then it acts, or the standby does
CORE_AGE_MAX = 7  # above every timeout of the core plus LAG_MAX: older is not told apart
AGENT_AGE_MAX = 4  # above every timeout of an agent: older is not told apart
TAKEOVER_KEPT = 3  # above the grace: for so long the log keeps a forced record for new readers
LATE_MAX = 2  # units after which a delayed copy of a record arrives at the latest
CLOSE_MAX = 5  # units that a hanging close takes at most: longer than any may be in flight
