"""Keys that are set while the job runs: in force from the next round on, strategies afresh."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.dynamic import KeyRefusedError, checked, dynamic_keys, effective
from controller.core.settings import Settings
from controller.strategies.registry import SHED
from controller.wire.commands import SetKey, UnsetKey
from controller.wire.decisions import AnswerRecord
from tests.world import SETTINGS, World, replay, serving, world


def told(w: World, command: SetKey | UnsetKey) -> str:
    """The problem of a refused command; empty if it was accepted."""
    record = msgspec.json.decode(w.command(command).rounds[0], type=AnswerRecord)
    assert record.command is not None and record.command.subject == command.key
    return "" if record.command.isAccepted else str(record.verdicts.top[0].inputs["problem"])


def hits(w: World) -> dict[str, dict[str, int]]:
    return dict(w.state.memory.shed)  # type: ignore[arg-type]


def test_a_round_uses_what_was_set_before_it_and_says_so() -> None:
    w = serving(world())
    assert told(w, SetKey(key="balance.avg.low_threshold_points", value=1)) == ""
    w.run(1_500)
    last = w.rounds[-1]

    assert last["overrides"] == {"balance.avg.low_threshold_points": 1.0}
    assert last["strategies"] == {"shed": "avg", "place": "least_resource", "split": "thresholds"}
    assert told(w, UnsetKey(key="balance.avg.low_threshold_points")) == ""
    w.run(1_500)
    assert w.rounds[-1]["overrides"] == {}


@pytest.mark.parametrize("name", sorted(SHED))
def test_a_strategy_that_is_switched_to_begins_without_hits(name: str) -> None:
    w = serving(world(brokers=4, bundles=16))
    told(w, SetKey(key="balance.avg.low_threshold_points", value=0))
    told(w, SetKey(key="balance.avg.hit_count_low", value=1_000))
    w.run(3_500)
    assert max(hits(w)["low"].values()) >= 3

    assert told(w, SetKey(key="balance.shed", value=name)) == ""
    before = w.state.memory.round_number
    w.run(1_100)
    assert w.rounds[-1]["strategies"]["shed"] == name
    rounds = w.state.memory.round_number - before
    if name == "avg":
        assert max(hits(w)["low"].values()) >= 4  # the same one goes on
        return
    assert "low" not in hits(w)

    told(w, SetKey(key="balance.shed", value="avg"))
    w.run(1_100)
    assert rounds >= 1
    assert max(hits(w)["low"].values()) == 1  # and so does avg, when it is switched back to


def test_switching_shedding_off_keeps_what_is_remembered() -> None:
    w = serving(world())
    told(w, SetKey(key="balance.avg.low_threshold_points", value=0))
    told(w, SetKey(key="balance.avg.hit_count_low", value=1_000))
    w.run(2_500)
    before = hits(w)
    told(w, SetKey(key="balance.is_shed_enabled", value=False))
    w.run(2_000)

    assert hits(w) == before
    assert w.rounds[-1]["verdicts"]["counts"]["switched_off"] == 1


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("balance.sched", "avg", "did you mean balance.shed?"),
        ("balance.liveness.takeover_after_ms", 5, "cannot be set while the job runs"),
        ("balance.shed", "best", "is no strategy; known are avg"),
        ("balance.shed", 7, "must be of type str"),
        ("balance.parity", 1, "must be of type bool"),
        ("balance.avg.hit_count_low", 0, "must be at least 1"),
        ("balance.avg.hit_count_low", 2.5, "must be of type int"),
        ("balance.avg.max_unload_ratio", 1.5, "must be at most 1.0"),
        ("balance.thresholds.algorithm", "by_moon", "must match"),
        ("balance.actions.excluded_namespaces", "t/n", "must be of type list of texts"),
        ("balance.rounds.interval_ms", 700, "must be a multiple of upkeep_interval_ms = 500"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_remedy(
    key: str, value: object, problem: str
) -> None:
    w = serving(world())
    assert problem in told(w, SetKey(key=key, value=value))  # type: ignore[arg-type]
    assert w.state.memory.overrides == {}


def test_unsetting_what_is_not_set_is_refused() -> None:
    assert told(serving(world()), UnsetKey(key="balance.shed")) == "balance.shed is not set"


def test_every_dynamic_key_takes_its_own_default() -> None:
    for key in dynamic_keys():
        node: object = Settings()
        for part in key.split(".")[1:]:
            node = getattr(node, part)
        value = list(node) if isinstance(node, tuple) else node
        assert effective(Settings(), {key: checked(Settings(), key, value)}) == Settings()  # type: ignore[arg-type]


def test_a_set_key_that_no_longer_exists_is_passed_over() -> None:
    """A checkpoint of another version must not stop the job."""
    assert effective(Settings(), {"balance.gone.key": 1, "balance.shed": "no-such"}) == Settings()
    with pytest.raises(KeyRefusedError):
        checked(Settings(), "balance.gone.key", 1)


def test_keys_that_were_set_are_part_of_what_is_replayed() -> None:
    w = serving(world(brokers=4, bundles=16))
    told(w, SetKey(key="balance.place", value="round_robin"))
    told(w, SetKey(key="balance.shed", value="transfer"))
    w.run(3_000)
    w.stop("b1")
    w.run(6_000)
    told(w, SetKey(key="balance.place", value="least_usage_modular"))
    w.run(3_000)

    halves = [len(w.log) // 3, len(w.log) // 2]
    assert replay(w.log, halves, SETTINGS) == replay(w.log, [], SETTINGS)
    assert w.state.memory.overrides == {
        "balance.place": "least_usage_modular",
        "balance.shed": "transfer",
    }
