"""TransferShedder: evens the load ratios out until their spread is below a target.

Rules (Pulsar's TransferShedder, PIP-192; pulsar.md §3.7):

1. Mean and spread (population standard deviation) of the smoothed load ratios. A hit is counted
   when the spread is above `target_std_ratio`, or the least loaded broker is an outlier below, or
   the most loaded one an outlier above; anything else clears the count (#20059).
2. From `hit_count` hits in a row on, pairs are worked off: the most loaded broker with the least
   loaded one, then the next, for at most `brokers_per_round_max` brokers that gave something.
   A broker with nothing to give is passed over, its partner stays.
3. Half the difference is to move, as throughput: see `transfer_pair`.
4. After each pair the spread is worked out anew; the round ends when nothing is wrong any more.
5. The count is cleared when something moved, and kept when nothing could.

Different from Pulsar, on purpose: a broker whose load is unknown, too old, or that just lost a
bundle stays out by itself, in the statistics and in the order (Pulsar stops the whole round, or
forgets the age in the order); what a swap brings back counts (in Pulsar only while it debugs) and
is checked like any other bundle. With `parity` as in Pulsar 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.strategies.memory import Memory, counts
from controller.strategies.params import TransferParams
from controller.strategies.protocols import ShedPlan, Transfer
from controller.strategies.shed.transfer_pair import Pair, work_off
from controller.strategies.shed.transfer_stats import Spread, spread_of
from controller.strategies.verdicts import Reason, Verdict
from controller.strategies.view import ClusterView

HITS = "transfer"
CLUSTER = "cluster"
"""The one name under which hits are counted."""


@dataclass(slots=True)
class Round:
    """What one round has done so far."""

    transfers: list[Transfer]
    verdicts: list[Verdict]
    without_data: int = 0
    without_bundles: int = 0


@dataclass(frozen=True, slots=True)
class TransferShed:
    """See the module text."""

    params: TransferParams
    parity: bool = False

    def shed(self, view: ClusterView, memory: Memory) -> ShedPlan:
        """One round."""
        hits = counts(memory, HITS).get(CLUSTER, 0)
        spread = spread_of(view, self.params, self.parity)
        if spread.skip is not None:
            verdict = Verdict(CLUSTER, _REASONS[spread.skip], flips_if=_SKIPS[spread.skip])
            return _plan((), hits, (verdict,), spread, spread.skip)
        trouble = self._trouble(view, spread)
        hits = hits + 1 if trouble is not None else 0
        if hits < self.params.hit_count:
            verdict = self._waits(spread, hits, trouble is not None)
            return _plan((), hits, (verdict,), spread, "HitCount")
        done = self._rounds(view, spread)
        if done.transfers:
            return _plan(done.transfers, 0, done.verdicts, spread)
        return _plan((), hits, done.verdicts, spread, _skip_of(done))

    def _rounds(self, view: ClusterView, spread: Spread) -> Round:
        """Rules 2 to 4."""
        done = Round([], [])
        while spread.offloaded < self.params.brokers_per_round_max and spread.has_pair:
            reason = self._trouble(view, spread)
            if reason is None:
                break
            hot, cold = spread.take_hottest(), spread.coldest
            pair = Pair.of(view, spread, hot, cold, self.params, self.parity)
            if not len(pair.top):
                done.without_data += 1
                done.verdicts.append(_nothing(view, hot, Reason.STALE_LOAD, "it reports bundles"))
                continue
            if len(pair.top) == 1:
                done.without_bundles += 1
                done.verdicts.append(_nothing(view, hot, Reason.SOLE_BUNDLE, "its bundle is split"))
                continue
            work_off(view, pair, reason)
            done.transfers += pair.transfers
            if pair.marked > 0.0:
                spread.offload(hot, cold, (pair.marked - pair.gained) * pair.load_per_byte)
            else:
                done.without_bundles += 1
                flips_if = "a bundle fits into half of the difference, or can be swapped"
                done.verdicts.append(_nothing(view, hot, Reason.DOES_NOT_FIT, flips_if))
        return done

    def _trouble(self, view: ClusterView, spread: Spread) -> str | None:
        """What is wrong with the balance; None = nothing."""
        if spread.std > self.params.target_std_ratio:
            return "overloaded"
        if self._is_underloaded(view, spread):
            return "underloaded"
        return "overloaded" if self._is_overloaded(view, spread) else None

    def _is_underloaded(self, view: ClusterView, spread: Spread) -> bool:
        """The least loaded broker is an outlier, by load or by throughput."""
        part = min(0.5, max(0.0, self.params.target_std_ratio / 2.0))
        cold, hot = spread.coldest, spread.hottest
        ema = view.broker_throughput_ema
        return bool(spread.load[cold] < spread.mean * part or ema[cold] < ema[hot] * part)

    def _is_overloaded(self, view: ClusterView, spread: Spread) -> bool:
        load = float(spread.load[spread.hottest])
        above_mean = load > spread.mean + self.params.target_std_ratio
        return load > self.params.overloaded_points / 100.0 and above_mean

    def _waits(self, spread: Spread, hits: int, is_trouble: bool) -> Verdict:
        inputs = (("std", spread.std), ("mean", spread.mean))
        target = self.params.target_std_ratio
        if not is_trouble:
            flips_if = "the spread passes target_std_ratio, or a broker is an outlier"
            return Verdict(CLUSTER, Reason.BALANCED, inputs, target, hits, flips_if)
        flips_if = f"it stays so for {self.params.hit_count - hits} more rounds"
        return Verdict(CLUSTER, Reason.HIT_COUNT, inputs, target, hits, flips_if)


_SKIPS = {
    "OutDatedData": "a broker reports its load",
    "CoolDown": "every broker has reported broker_delay_ms after it lost a bundle",
    "NoBrokers": "a broker reports its load",
    "NoLoadData": "every registered broker reports its load",
}
_REASONS = {
    "OutDatedData": Reason.STALE_LOAD,
    "CoolDown": Reason.COOL_DOWN,
    "NoBrokers": Reason.NO_BROKERS,
    "NoLoadData": Reason.STALE_LOAD,
}


def _skip_of(done: Round) -> str:
    """Pulsar's reason for a round that acted and moved nothing."""
    if done.without_data:
        return "NoLoadData"
    return "NoBundles" if done.without_bundles else "HitCount"


def _nothing(view: ClusterView, broker: int, reason: Reason, flips_if: str) -> Verdict:
    return Verdict(view.broker_names[broker], reason, flips_if=flips_if)


def _plan(
    transfers: Sequence[Transfer],
    hits: int,
    verdicts: Sequence[Verdict],
    spread: Spread,
    skip: str | None = None,
) -> ShedPlan:
    figures = {"mean": spread.mean, "std": spread.std_before, "std_after": spread.std}
    memory = {HITS: {CLUSTER: hits}} if hits else {}
    return ShedPlan(tuple(transfers), memory, tuple(verdicts), skip, figures)
