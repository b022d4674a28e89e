"""100,000 mutated channel records: none stops the table, and each is counted once, with a reason.

Beside them stands a bundle whose good records must all count.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from controller.channel.table import ChannelTable, Outcome
from controller.wire.channel import LONG_MAX, LONG_MIN, encode_channel
from controller.wire.limits import WireLimits
from controller.wire.rejects import REASONS
from tests.channel.records import BUNDLE, LOWER, UPPER, S, record

SEEDS = range(20)
RECORDS_PER_SEED = 5_000  # 100,000 in all
LIMITS = WireLimits(record_bytes_max=600, bundles_per_report_max=3, text_max=40)
LOSING = {"stale_version", "bad_transition", "broker_mismatch"}

KEYS = (BUNDLE, f"t/ns/{LOWER}", f"t/ns/{UPPER}", "p/t/ns/0x00000000_0xffffffff")
BAD_KEYS = (None, "", "x", f"ns/{LOWER}", "t/ns/0x1_0x2", "t/ns/0x80000000_0x00000000", "\ud800")
NAMES = ("b1", "b2", "b3", "", " ", None, "b" * 41, 7, ["b1"])
NUMBERS: tuple[Any, ...] = (0, 1, 2, 3, -1, LONG_MAX, LONG_MIN, LONG_MAX + 1, 1.5, 1e999, "1", None)
FIELDS = ("state", "dstBroker", "sourceBroker", "force", "timestamp", "versionId", "reason", "more")
CHILDREN: tuple[Any, ...] = (
    {},
    {LOWER: None, UPPER: "b2"},
    {LOWER: 1},
    {"0x1": None},
    {LOWER: "b" * 41},
    {f"0x0000000{n}_0x00000010": None for n in range(4)},
    [LOWER],
)


def document(rng: random.Random) -> dict[str, Any]:
    """A record that is mostly good, so that the conflict rule gets to see many."""
    state = rng.choice(["Free", "Owned", "Assigning", "Releasing", "Splitting", "Deleted"])
    made: dict[str, Any] = {"state": state, "timestamp": 1, "versionId": rng.randint(1, 40)}
    for name in ("dstBroker", "sourceBroker"):
        if rng.random() < 0.7:
            made[name] = rng.choice(NAMES[:3])
    if rng.random() < 0.3:
        made["force"] = rng.random() < 0.5
    if state == "Splitting":
        made["splitServiceUnitToDestBroker"] = rng.choice(CHILDREN[:2])
    return made


def spoil(rng: random.Random, made: dict[str, Any]) -> None:
    """Changes one field to something that a record may not, or only just, hold."""
    kind = rng.randrange(6)
    if kind == 0:
        made.pop(rng.choice([*made]), None)
    elif kind == 1:
        made[rng.choice(FIELDS)] = rng.choice(NAMES)
    elif kind == 2:
        made[rng.choice(["timestamp", "versionId", "epoch"])] = rng.choice(NUMBERS)
    elif kind == 3:
        made["state"] = rng.choice(["Init", "owned", "", None, 3, "Bogus"])
    elif kind == 4:
        made["splitServiceUnitToDestBroker"] = rng.choice(CHILDREN)
    else:
        made["reason"] = "x" * rng.choice([40, 41, 700])


def cut_up(rng: random.Random, value: bytes) -> bytes:
    """Bytes that no writer of JSON wrote: cut, overwritten, doubled, nested or random."""
    at = rng.randrange(len(value))
    kind = rng.randrange(6)
    if kind == 0:
        return value[:at]
    if kind == 1:
        return value[:at] + rng.randbytes(3) + value[at + 3 :]
    if kind == 2:
        return value + value
    if kind == 3:
        return b"[" * 200 + value
    if kind == 4:
        return value.replace(b'"', b'"\\ud800', 2)
    return rng.randbytes(rng.randrange(60))


def mutated(rng: random.Random) -> tuple[str | None, bytes | None]:
    """Key and value of one record, about half of them good in themselves."""
    key = rng.choice(KEYS) if rng.random() < 0.95 else rng.choice(BAD_KEYS)
    luck = rng.random()
    if luck < 0.01:
        return key, None
    made = document(rng)
    if luck < 0.35:
        spoil(rng, made)
    value = json.dumps(made).encode()
    return key, cut_up(rng, value) if 0.35 <= luck < 0.5 else value


def check_outcome(outcome: Outcome, before: Counter[str], table: ChannelTable) -> None:
    """One record moved exactly one count by one, and its reason is a known one."""
    assert sums(table).total() == before.total() + 1
    if outcome.unreadable is not None:
        assert outcome.reason in REASONS and outcome.unreadable.detail
        assert outcome.new is None
    else:
        assert outcome.is_accepted or outcome.reason in LOSING


def sums(table: ChannelTable) -> Counter[str]:
    return Counter({"accepted": table.accepted}) + table.losing + table.unreadable


def fuzz(seed: int) -> tuple[ChannelTable, Counter[str]]:
    """The table after the records of one seed, and what the outcomes said."""
    rng, table, told = random.Random(seed), ChannelTable(limits=LIMITS), Counter[str]()
    good = "good/ns/0x00000000_0xffffffff"
    for at in range(RECORDS_PER_SEED):
        before = sums(table)
        outcome = table.apply_raw(*mutated(rng), at)
        check_outcome(outcome, before, table)
        kind = "losing" if outcome.losing else "unreadable" if outcome.unreadable else "accepted"
        told[f"{kind} {outcome.reason}"] += 1
    for version, state in [(1, S.Assigning), (2, S.Owned)]:
        raw = encode_channel(record(state, version, "b1"))
        assert table.apply_raw(good, raw, RECORDS_PER_SEED).is_accepted
    assert table.owner(good) == "b1"
    return table, told


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_records_are_counted_and_never_raise(seed: int) -> None:
    table, told = fuzz(seed)
    assert told.total() == RECORDS_PER_SEED
    assert table.accepted - 2 == told["accepted None"]
    assert table.losing == {why: told[f"losing {why}"] for why in table.losing}
    assert table.unreadable == {why: told[f"unreadable {why}"] for why in table.unreadable}
    counted = table.accepted - 2 + table.losing.total() + table.unreadable.total()
    assert counted == RECORDS_PER_SEED
    assert set(table.records) <= {*KEYS, "good/ns/0x00000000_0xffffffff"}
    assert set(table.tainted) <= set(table.records)
    assert {name for name, _, _ in table.in_flight(0)} <= set(table.records)


def test_the_mutations_reach_every_way_to_fail() -> None:
    """The fuzz test would prove little if most records failed, or all in the same way."""
    told: Counter[str] = sum((fuzz(seed)[1] for seed in range(3)), Counter())
    unreadable = {key.split()[1] for key in told if key.startswith("unreadable")}
    losing = {key.split()[1] for key in told if key.startswith("losing")}
    assert losing == LOSING
    assert unreadable >= {
        "malformed_json",
        "missing_field",
        "wrong_type",
        "not_finite",
        "negative",
        "absurd_value",
        "bad_name",
        "oversized",
        "not_utf8",
        "too_many_bundles",
    }
    assert told["accepted None"] > 300, told
