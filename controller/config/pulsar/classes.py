"""Pulsar's strategy classes by our names. A class is known by its simple name, in any package."""

from __future__ import annotations

SHEDDERS = {
    "AvgShedder": "avg",
    "OverloadShedder": "overload",
    "ThresholdShedder": "threshold",
    "TransferShedder": "transfer",
    "UniformLoadShedder": "uniform",
}
PLACEMENTS = {
    "AvgShedder": "avg",
    "LeastLongTermMessageRate": "least_long_term_rate",
    "LeastResourceUsageWithWeight": "least_usage_modular",
    "RoundRobinBrokerSelector": "round_robin",
}
SPLITS = {
    "ExtensibleLoadManagerImpl": "thresholds",
    "ModularLoadManagerImpl": "long_term",
}
"""Each load manager has its own way to split."""

EXTENSIBLE = "ExtensibleLoadManagerImpl"


class UnknownClassError(ValueError):
    """A class of the user's own, or one that does not balance."""

    def __init__(self, kind: str, name: str, known: dict[str, str]) -> None:
        super().__init__(
            f"{kind} class {name!r} has no counterpart here; known are {', '.join(known)}"
        )


def shedder_of(name: str) -> str:
    """Our shed strategy for a class; raises `UnknownClassError`."""
    return _find("shedding", name, SHEDDERS)


def placement_of(name: str) -> str:
    """Our place strategy for a class; raises `UnknownClassError`."""
    return _find("placement", name, PLACEMENTS)


def split_of(name: str) -> str:
    """Our split strategy for a load manager; raises `UnknownClassError`."""
    return _find("load manager", name, SPLITS)


def is_extensible(name: str) -> bool:
    """Whether a load manager sheds and places in its own ways, whatever else is named."""
    return simple_name(name) == EXTENSIBLE


def simple_name(name: str) -> str:
    """A class without its package."""
    return name.strip().rpartition(".")[2]


def _find(kind: str, name: str, known: dict[str, str]) -> str:
    simple = simple_name(name)
    if simple not in known:
        raise UnknownClassError(kind, name, known)
    return known[simple]
