"""One line into a scenario: names checked, carry-over, patches and repeats applied.

A tick's members stay in force until they are replaced; `xPatch` is merged into `x` (null deletes);
some hold for their own tick only; `repeat: n` runs a tick n times. Raises `ScenarioError`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

TRANSIENT = ("activeBrokers", "select", "repeat", "report")
REPEAT_MAX = 100_000
PATCH = "Patch"


class ScenarioError(ValueError):
    """What is wrong with a line, with the member that is to blame."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class Scenario(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One scenario as it stands on its line."""

    id: str
    ticks: list[dict[str, Any]]
    strategy: str | None = None
    conf: dict[str, Any] = {}
    tags: list[str] = []
    ordered: bool = False
    shuffles: int = 6
    shuffleSeed: int = 7


_DECODER = msgspec.json.Decoder(Scenario)
_ANY = msgspec.json.Decoder()


def scenario_of(line: bytes) -> Scenario:
    """The scenario of one line; raises `ScenarioError`."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise error_of(error) from None


def id_of(line: bytes) -> str | None:
    """The id of a line that is no scenario, if it has one."""
    try:
        found = _ANY.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    given = found.get("id") if isinstance(found, dict) else None
    return given if isinstance(given, str) else None


def error_of(error: Exception, place: str = "") -> ScenarioError:
    """Msgspec's message, "what - at `$.path`", as (field, reason)."""
    reason, _, path = str(error).partition(" - at `$")
    field = f"{place}{path.rstrip('`')}".lstrip(".")
    return ScenarioError(reason, field)


def expand(scenario: Scenario) -> Iterator[tuple[dict[str, Any], int]]:
    """(complete input, how often it runs) for each tick, in order; not to be changed."""
    current: dict[str, Any] = {}
    for number, tick in enumerate(scenario.ticks):
        current = {name: value for name, value in current.items() if name not in TRANSIENT}
        for name, value in tick.items():
            if name.endswith(PATCH) and name != PATCH:
                _patch(current, name, value, f"ticks[{number}].{name}")
            else:
                current[name] = value
        repeat = current.pop("repeat", 1)
        is_count = isinstance(repeat, int) and not isinstance(repeat, bool)
        if not is_count or not 0 <= repeat <= REPEAT_MAX:
            reason = f"{repeat!r} is no number of times; allowed are 0 to {REPEAT_MAX}"
            raise ScenarioError(reason, f"ticks[{number}].repeat")
        yield current, repeat


def _patch(current: dict[str, Any], name: str, value: Any, place: str) -> None:
    """Merges into a copy: earlier ticks' inputs stay as they were."""
    target = name.removesuffix(PATCH)
    if not isinstance(value, dict):
        raise ScenarioError("a patch must be an object", place)
    base = copy.deepcopy(current.get(target, {}))
    if not isinstance(base, dict):
        raise ScenarioError(f"{target} is no object that could be patched", place)
    _merge(base, value)
    current[target] = base


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value
