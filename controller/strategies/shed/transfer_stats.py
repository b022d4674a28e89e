"""The statistics of `transfer`: who counts, mean and spread of the loads, and the two cursors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controller.strategies.params import TransferParams
from controller.strategies.view import Bools, ClusterView, Floats


@dataclass(slots=True)
class Spread:
    """Mean and standard deviation of the load ratios, and the brokers in the order of load.

    `skip` is set where no statistics can be had; nothing else means anything then.
    """

    load: Floats  # m, as the view's
    ranked: list[int]  # least loaded first
    count: int  # brokers in the statistics
    mean: float = 0.0
    squares: float = 0.0
    std: float = 0.0
    std_before: float = 0.0
    low: int = 0  # cursors into `ranked`
    high: int = 0
    offloaded: int = 0
    skip: str | None = None

    @property
    def has_pair(self) -> bool:
        """True while the cursors have not met."""
        return self.low < self.high

    @property
    def coldest(self) -> int:
        """The least loaded broker that has not been given anything."""
        return self.ranked[self.low]

    @property
    def hottest(self) -> int:
        """The most loaded broker that has not been looked at."""
        return self.ranked[self.high]

    def take_hottest(self) -> int:
        """Like `hottest`, which moves on to the next one."""
        self.high -= 1
        return self.ranked[self.high + 1]

    def offload(self, hot: int, cold: int, amount: float) -> None:
        """Works the spread out anew after `amount` of load went from hot to cold.

        The mean is left as it was, and so is the order.
        """
        before_hot, before_cold = float(self.load[hot]), float(self.load[cold])
        after_hot, after_cold = max(0.0, before_hot - amount), before_cold + amount
        self.squares -= before_hot * before_hot + before_cold * before_cold
        self.squares += after_hot * after_hot + after_cold * after_cold
        self.std = math.sqrt(abs(self.squares / self.count - self.mean * self.mean))
        self.offloaded += 1
        self.low += 1


def spread_of(view: ClusterView, params: TransferParams, parity: bool) -> Spread:
    """Statistics at the beginning of a round."""
    load = view.broker_load_ema
    has_load = view.broker_reported_ms > 0
    age_ms = view.now_ms - view.broker_reported_ms
    is_old = has_load & (age_ms > params.load_ttl_ms)
    since_ms = view.broker_reported_ms - view.broker_unloaded_ms
    is_cooling = (view.broker_unloaded_ms > 0) & (since_ms < params.broker_delay_ms)
    counted = has_load & ~is_old
    if parity:
        skip = _skip(view, counted, is_old, counted & is_cooling)
        in_order = has_load
    else:
        counted &= view.broker_can_shed & ~is_cooling
        skip = None if counted.any() else _why_none(has_load, is_old, is_cooling)
        in_order = counted
    return _spread(load, counted, in_order, skip)


def _skip(view: ClusterView, counted: Bools, is_old: Bools, is_cooling: Bools) -> str | None:
    """Pulsar's reason not to look any further; one broker is enough for most of them."""
    if is_cooling.any():
        return "CoolDown"
    if not counted.any():
        return "OutDatedData" if is_old.any() else "NoBrokers"
    is_missing = view.broker_is_registered & ~(view.broker_reported_ms > 0)
    return "NoLoadData" if is_missing.any() else None


def _why_none(has_load: Bools, is_old: Bools, is_cooling: Bools) -> str:
    if not has_load.any():
        return "NoBrokers"
    return "CoolDown" if (has_load & is_cooling & ~is_old).any() else "OutDatedData"


def _spread(load: Floats, counted: Bools, in_order: Bools, skip: str | None) -> Spread:
    ranked = np.flatnonzero(in_order)
    ranked = ranked[np.lexsort((ranked, load[ranked]))]
    if skip is not None:
        return Spread(load, ranked.tolist(), 0, skip=skip)
    values = load[counted].tolist()
    count = len(values)
    squares = sum(value * value for value in values)
    mean = sum(values) / count
    # Equal loads may give a difference a little below zero: no spread (Pulsar's NaN is none too).
    std = math.sqrt(max(0.0, squares / count - mean * mean))
    return Spread(load, ranked.tolist(), count, mean, squares, std, std, 0, max(0, len(ranked) - 1))
