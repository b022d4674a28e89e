"""Decision-log records: one per round, and one per answer given between rounds. JSON lines.

A round record carries all that explains the round: the offsets it had read, the figures it saw,
what it decided and why, and what it did not do and why. Equal rounds give equal bytes.
"""

from __future__ import annotations

import hashlib

import msgspec


class DecisionEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision, written to the channel as the record with this version."""

    kind: str  # assign, transfer, unload, split, override, reassert, tombstone
    bundle: str
    source: str | None = msgspec.field(default=None, name="from")
    destination: str | None = msgspec.field(default=None, name="to")
    reason: str
    detail: str = ""
    children: list[str] | None = None
    version: int
    decisionId: str


class VerdictEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One no in full."""

    subject: str
    reason: str
    code: int
    inputs: dict[str, float | str] = {}
    threshold: float | None = None
    hits: int | None = None
    flipsIf: str = ""


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of all refusals per reason, and the first few in full."""

    counts: dict[str, int]
    top: list[VerdictEntry]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions in the order of the channel writes; `hash` identifies the content."""

    hash: str
    decisions: list[DecisionEntry]


class RoundStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What the round saw. Loads are load ratios with in-flight moves applied.

    `imbalance` is max/mean over live brokers with known load; `splitFloor` is the least
    imbalance that moving whole bundles can reach (biggest bundle against the mean); `loadMax`
    beside `loadBound` (the bound of `movesMax` moves) shows the distance to the optimum.
    """

    brokersLive: int
    brokersFrozen: int
    brokersSilent: int
    bundles: int
    bundlesOwned: int
    inFlight: int
    requests: int
    loadMean: float
    loadMax: float
    loadMin: float
    imbalance: float
    splitFloor: float
    loadBound: float
    loads: dict[str, float]
    hitsLow: int
    hitsHigh: int


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True, tag="round", tag_field="type"):
    """One round."""

    cluster: str
    round: int
    tickMs: int
    clockMs: int
    mode: str  # act, warm_up, paused, safe_mode
    health: str = "Stable"  # Stable, Jittery, Unstable
    strategies: dict[str, str] = {}  # shed, place, split: the strategies in use
    overrides: dict[str, bool | int | float | str | list[str]] = {}  # keys set by operators
    inputs: dict[str, int]  # "topic/partition" -> last offset read
    statistics: RoundStatistics
    plan: Plan
    verdicts: Verdicts


class CommandEcho(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operator's command that an answer belongs to."""

    command: str  # its tag: transfer, drain, ...
    isAccepted: bool
    subject: str | None = None  # the bundle or broker that it is about
    id: str | None = None
    who: str | None = None
    why: str | None = None


class AnswerRecord(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="answer", tag_field="type"
):
    """What was decided between rounds: assignments, repairs, operators' commands."""

    cluster: str
    round: int  # the last round before it
    clockMs: int
    command: CommandEcho | None = None
    plan: Plan
    verdicts: Verdicts


def plan_of(decisions: list[DecisionEntry]) -> Plan:
    """A plan with the hash of its content."""
    digest = hashlib.blake2b(msgspec.json.encode(decisions), digest_size=12)
    return Plan(hash=digest.hexdigest(), decisions=decisions)
