"""Exponential averages of a broker's load: `update` and `clear` of Pulsar's BrokerLoadData.

Rules: the first sample after the start or a clearing is taken as it is, later ones as
history_ratio * old + (1 - history_ratio) * new; a record without a sample says that the broker
is full, so that an unmeasured one attracts nothing. The core smooths with `smooth`.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.load.usage import ResourceWeights, Usage, max_usage, weighted_max


def smooth(old: float, new: float, samples: int, history_ratio: float) -> float:
    """One step of an average that has seen `samples` before; the first is taken as it is."""
    return new if samples == 0 else history_ratio * old + (1.0 - history_ratio) * new


@dataclass(frozen=True, slots=True)
class BrokerAverages:
    """Load of a broker over time; what stands here as default is Pulsar's empty record."""

    max_usage: float = 1.0  # `maxResourceUsage`: fraction, latest sample
    weighted_max_ema: float = 1.0  # `weightedMaxEMA`: fraction, smoothed, heap at its weight
    throughput_ema: float = 0.0  # `msgThroughputEMA`: byte/s in + out, smoothed
    is_empty: bool = True  # no sample yet, or none since a clearing

    def updated(
        self, usage: Usage, throughput: float, weights: ResourceWeights, history_ratio: float
    ) -> BrokerAverages:
        """After one more sample; `throughput` in byte/s in + out, history_ratio 0 to 1.

        history_ratio is Pulsar's loadBalancerHistoryResourcePercentage (0.9 there).
        """
        samples = 0 if self.is_empty else 1
        weighted = weighted_max(usage, weights)
        return BrokerAverages(
            max_usage=max_usage(usage),
            weighted_max_ema=smooth(self.weighted_max_ema, weighted, samples, history_ratio),
            throughput_ema=smooth(self.throughput_ema, throughput, samples, history_ratio),
            is_empty=False,
        )

    def cleared(self) -> BrokerAverages:
        """After a move of this broker: what went before says little about what comes."""
        return BrokerAverages()
