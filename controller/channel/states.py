"""Transitions of a service unit, as data.

Two rules for this file. First: it holds tables and no code, so that it can be laid beside Apache
Pulsar's (reference: pulsar.md §6.3, and Pulsar 4.2.4's own tables in the tests). Second: nobody
else decides what may follow what; whoever needs to know looks here.

The log's Init row is generous because a reader may begin in the middle of a compacted topic.
Called by `controller.channel.conflict`, the core and the agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from controller.wire.channel import ServiceUnitState as S

Storage = Literal["log", "metadata"]  # Pulsar's SystemTopic and MetadataStore
Transitions = Mapping[S, frozenset[S]]

LOG_TRANSITIONS: Transitions = MappingProxyType(
    {
        S.Init: frozenset({S.Free, S.Owned, S.Assigning, S.Releasing, S.Splitting, S.Deleted}),
        S.Free: frozenset({S.Assigning, S.Init}),
        S.Owned: frozenset({S.Splitting, S.Releasing}),
        S.Assigning: frozenset({S.Owned}),
        S.Releasing: frozenset({S.Assigning, S.Free}),
        S.Splitting: frozenset({S.Deleted}),
        S.Deleted: frozenset({S.Init}),
    }
)

METADATA_TRANSITIONS: Transitions = MappingProxyType(
    {
        S.Init: frozenset({S.Assigning}),
        S.Free: frozenset({S.Assigning}),
        S.Owned: frozenset({S.Splitting, S.Releasing}),
        S.Assigning: frozenset({S.Owned}),
        S.Releasing: frozenset({S.Assigning, S.Free}),
        S.Splitting: frozenset({S.Deleted}),
        S.Deleted: frozenset({S.Init}),
    }
)

TRANSITIONS: Mapping[Storage, Transitions] = MappingProxyType(
    {"log": LOG_TRANSITIONS, "metadata": METADATA_TRANSITIONS}
)

IN_FLIGHT: frozenset[S] = frozenset({S.Assigning, S.Releasing, S.Splitting})
ACTIVE: frozenset[S] = IN_FLIGHT | {S.Owned}

# Which field names the broker that serves clients; in the other states nobody does.
SERVED_BY: Mapping[S, Literal["dstBroker", "sourceBroker"]] = MappingProxyType(
    {S.Owned: "dstBroker", S.Releasing: "sourceBroker", S.Splitting: "sourceBroker"}
)

# Who writes the records of a transition when nothing goes wrong; null records end in Init. The
# repairs are not here: a forced record of the controller may follow any record.
WRITERS: Mapping[tuple[S, S], str] = MappingProxyType(
    {
        (S.Init, S.Assigning): "controller",
        (S.Init, S.Owned): "src of the split parent",
        (S.Free, S.Assigning): "controller",
        (S.Free, S.Init): "controller",
        (S.Owned, S.Releasing): "controller",
        (S.Owned, S.Splitting): "controller",
        (S.Assigning, S.Owned): "dst",
        (S.Releasing, S.Assigning): "src",
        (S.Releasing, S.Free): "src",
        (S.Splitting, S.Deleted): "src",
        (S.Deleted, S.Init): "controller",
    }
)
