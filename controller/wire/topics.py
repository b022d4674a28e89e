"""Load of single topics, as our reports list it for some bundles; checked with the report.

Called by `controller.wire.reports`; the core reads `TopicLoads` where it cuts a bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.wire.formats import BundleStats
from controller.wire.limits import WireLimits
from controller.wire.rejects import WireError

_MEMBERS = ("topicRates", "topicThroughputs")


@dataclass(frozen=True, slots=True)
class TopicLoads:
    """n topics of one bundle, in the order of the report; a hash may occur more than once."""

    hashes: NDArray[np.int64]  # CRC-32, 0 to 2^32 - 1
    rates: NDArray[np.float64]  # msg/s, in + out; 0.0 = none, or not known
    throughputs: NDArray[np.float64]  # byte/s, in + out; 0.0 = none, or not known


def checked_topics(
    bundles: Mapping[str, BundleStats], limits: WireLimits
) -> tuple[dict[str, list[int]], dict[str, TopicLoads]]:
    """Hashes of the bundles that list them, and loads of those that give loads too."""
    hashes = {n: s.topicHashes for n, s in bundles.items() if s.topicHashes is not None}
    for name, some in hashes.items():
        if len(some) > limits.topic_hashes_max:
            detail = f"{len(some)} hashes; allowed are {limits.topic_hashes_max}"
            raise WireError("absurd_value", _path(name, "topicHashes"), detail)
    return hashes, dict(_loads(bundles, limits))


def _loads(
    bundles: Mapping[str, BundleStats], limits: WireLimits
) -> Iterator[tuple[str, TopicLoads]]:
    for name, stats in bundles.items():
        given = (stats.topicRates, stats.topicThroughputs)
        if given == (None, None):
            continue
        hashes = stats.topicHashes
        if hashes is None:
            detail = "loads of topics are given without their hashes"
            raise WireError("missing_field", _path(name, "topicHashes"), detail)
        rates, throughputs = (
            _checked(figures, len(hashes), _path(name, member), limits)
            for member, figures in zip(_MEMBERS, given, strict=True)
        )
        yield name, TopicLoads(np.array(hashes, np.int64), rates, throughputs)


def _checked(
    figures: list[float] | None, count: int, path: str, limits: WireLimits
) -> NDArray[np.float64]:
    if figures is None:
        raise WireError("missing_field", path, "the other load of these topics is given alone")
    if len(figures) != count:
        detail = f"{len(figures)} figures for {count} topics"
        raise WireError("absurd_value", path, detail)
    values = np.array(figures, np.float64)
    # Written so that a NaN would fail too, should one ever get this far.
    bad = np.flatnonzero(~((values >= 0.0) & (values <= limits.value_max)))
    if len(bad):
        at, figure = int(bad[0]), float(values[bad[0]])
        reason = "negative" if figure < 0.0 else "absurd_value"
        detail = f"{figure:.6g}; allowed are 0 to {limits.value_max:g}"
        raise WireError(reason, f"{path}[{at}]", detail)
    return values


def _path(bundle: str, member: str) -> str:
    return f'bundles["{bundle}"].{member}'
