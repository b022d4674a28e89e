"""Topics of a bundle, out of all topics of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from controller.decide.forms import TopicRates
from controller.decide.scenario import ScenarioError
from controller.model.bundles import Bundle, BundleNameError, topic_hash, topic_namespace
from controller.wire.topics import TopicLoads

NOTHING = TopicRates()


def topics_in(bundle: str, topics: Iterable[str]) -> list[tuple[int, str]]:
    """(hash, topic) of those topics that belong to a bundle, by hash."""
    try:
        whole = Bundle.parse(bundle)
        return sorted(
            (topic_hash(topic), topic)
            for topic in topics
            if topic_namespace(topic) == whole.namespace and whole.range.contains(topic_hash(topic))
        )
    except BundleNameError as error:
        raise ScenarioError(str(error), "topics") from None


def loads_of(bundle: str, topics: Iterable[str], stats: Mapping[str, TopicRates]) -> TopicLoads:
    """Hashes, rates and throughputs of a bundle's topics; 0 where nothing is known."""
    found = topics_in(bundle, topics)
    rates = [stats.get(topic, NOTHING) for _, topic in found]
    return TopicLoads(
        np.array([h for h, _ in found], np.int64),
        np.array([one.msgRateIn + one.msgRateOut for one in rates], np.float64),
        np.array([one.msgThroughputIn + one.msgThroughputOut for one in rates], np.float64),
    )
