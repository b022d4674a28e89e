"""The state of one cluster and its blob: what `step` takes and gives back.

Blob: MAGIC, version (u2), length of the header (u4), header (msgpack), column bytes. The bytes
of each number are stored plane by plane (all first bytes, all second bytes, ...), which makes
tables of similar numbers compress well; compressing is the caller's. Names of bundles are not
stored: namespace and range rebuild them.

A change of a table's layout needs no migration if a column is added (it starts empty) or
dropped. Anything else: raise VERSION and add a function to `MIGRATIONS`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controller.core.settings import Settings
from controller.core.state.columns import Array, Columns
from controller.core.state.memory import Memory
from controller.core.state.tables import broker_table, bundle_table

MAGIC = b"BCST"
VERSION = 1
NAMES_KEPT = 8  # clusters whose bundle names one process keeps, a few MB each at most
_PREFIX = struct.Struct("<4sHI")

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: dict[int, Migration] = {}
"""Version -> function that turns a header of that version into one of the next."""


class Names(NamedTuple):
    """Names of a table; not to be changed, `Columns.restore` copies."""

    by_slot: tuple[str, ...]
    slots: Mapping[str, int]


class StateBlobError(ValueError):
    """The blob is not a state of ours, or is newer than this program."""


@dataclass(slots=True)
class ClusterState:
    """Everything the core remembers of one cluster. Treat as immutable outside `step`."""

    memory: Memory
    brokers: Columns
    bundles: Columns
    namespaces: list[str]  # index = column `namespace` of the bundle table

    def copy(self) -> ClusterState:
        """An independent copy, for `step` to work on."""
        return ClusterState(
            self.memory.copy(), self.brokers.copy(), self.bundles.copy(), self.namespaces.copy()
        )


def new_state(cluster: str, settings: Settings) -> ClusterState:
    """The state of a cluster of which nothing is known."""
    return ClusterState(
        Memory(cluster=cluster), broker_table(), bundle_table(settings.windows.precision), []
    )


def encode_state(state: ClusterState) -> bytes:
    """The blob of a state; equal states give equal bytes."""
    tables: dict[str, list[tuple[str, str, list[int]]]] = {"brokers": [], "bundles": []}
    body: list[bytes] = []
    for table, columns in (("brokers", state.brokers), ("bundles", state.bundles)):
        for column, array in columns.dump():
            tables[table].append((column.name, array.dtype.str, list(array.shape)))
            body.append(_planes(array))
    header = msgspec.msgpack.encode(
        {
            "memory": msgspec.to_builtins(state.memory, builtin_types=(bytes,)),
            "namespaces": state.namespaces,
            "brokers": state.brokers.names,
            "free_bundles": sorted(state.bundles.free),
            "tables": tables,
        }
    )
    return b"".join((_PREFIX.pack(MAGIC, VERSION, len(header)), header, *body))


def decode_state(blob: bytes, settings: Settings) -> ClusterState:
    """The state in a blob; raises `StateBlobError`."""
    if len(blob) < _PREFIX.size:
        raise StateBlobError("state blob is too short")
    magic, version, length = _PREFIX.unpack_from(blob)
    if magic != MAGIC:
        raise StateBlobError("state blob does not begin with BCST")
    if version > VERSION:
        raise StateBlobError(f"state blob has version {version}; this program knows {VERSION}")
    start = _PREFIX.size + length
    header = msgspec.msgpack.decode(blob[_PREFIX.size : start])
    arrays = _read_arrays(memoryview(blob)[start:], header["tables"])
    header = migrate(header, version, VERSION, MIGRATIONS)
    state = new_state("", settings)
    state.memory = msgspec.convert(header["memory"], Memory)
    state.namespaces = header["namespaces"]
    brokers = header["brokers"]
    slots = {name: slot for slot, name in enumerate(brokers) if name}
    state.brokers.restore(brokers, slots, arrays["brokers"])
    names = _bundle_names(
        tuple(header["namespaces"]),
        *(arrays["bundles"][column].tobytes() for column in ("namespace", "lower", "upper")),
        tuple(header["free_bundles"]),
    )
    state.bundles.restore(list(names.by_slot), dict(names.slots), arrays["bundles"])
    return state


def migrate(
    header: dict[str, Any], version: int, target: int, migrations: Mapping[int, Migration]
) -> dict[str, Any]:
    """Takes a header from one version to another, one migration after the other."""
    for old in range(version, target):
        header = migrations[old](header)
    return header


def bundle_name(namespace: str, lower: int, upper: int) -> str:
    """The bundle's name, as `str(Bundle)` writes it."""
    return f"{namespace}/0x{lower:08x}_0x{upper:08x}"


@lru_cache(maxsize=NAMES_KEPT)
def _bundle_names(
    namespaces: tuple[str, ...], namespace: bytes, lower: bytes, upper: bytes, free: tuple[int, ...]
) -> Names:
    """Names by slot, and slots by name.

    Kept, because names hardly ever change: most states that a process decodes have the names of
    one that it has decoded before.
    """
    names = [
        bundle_name(namespaces[n], low, high) if namespaces else ""
        for n, low, high in zip(
            *(np.frombuffer(column, "<u4").tolist() for column in (namespace, lower, upper)),
            strict=True,
        )
    ]
    for slot in free:
        names[slot] = ""
    return Names(tuple(names), {name: slot for slot, name in enumerate(names) if name})


def _planes(array: Array) -> bytes:
    width = array.dtype.itemsize
    flat = np.ascontiguousarray(array).reshape(-1)
    if width == 1 or not len(flat):
        return flat.tobytes()
    return flat.view(np.uint8).reshape(-1, width).T.tobytes()


def _read_arrays(
    body: memoryview, tables: dict[str, list[tuple[str, str, list[int]]]]
) -> dict[str, dict[str, Array]]:
    arrays: dict[str, dict[str, Array]] = {}
    at = 0
    for table in ("brokers", "bundles"):
        arrays[table] = {}
        for name, code, shape in tables[table]:
            dtype = np.dtype(code)
            count = int(np.prod(shape)) * dtype.itemsize
            if at + count > len(body):
                raise StateBlobError("state blob is truncated")
            planes = np.frombuffer(body[at : at + count], np.uint8)
            at += count
            numbers = np.ascontiguousarray(
                planes.reshape(dtype.itemsize, count // dtype.itemsize).T
            )
            arrays[table][name] = numbers.reshape(-1).view(dtype).reshape(shape)
    return arrays
