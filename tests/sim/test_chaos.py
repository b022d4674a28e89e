"""The fault simulator: many seeds without a violation, and the judge that would see one."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from controller.channel.states import IN_FLIGHT
from controller.config import load_config
from controller.config.checks import problems_in
from controller.sim.chaos.__main__ import run_chunk
from controller.sim.chaos.judge import Judge, Violation
from controller.sim.chaos.run import SCALE, run_seed
from controller.transport.port import LogRecord
from controller.wire.channel import ServiceUnitState, ServiceUnitStateData, encode_channel

SEEDS = 240  # the bench (`make chaos`) runs 10,000
FIRST = 1_000_000  # not those of the bench
CHUNK = 20
LOW, HIGH = "c/n/0x00000000_0x80000000", "c/n/0x80000000_0xffffffff"
WHOLE = "c/n/0x00000000_0xffffffff"
S = ServiceUnitState


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_seed_violates_an_invariant() -> None:
    print(f"seeds {FIRST} to {FIRST + SEEDS - 1}")
    chunks = [range(at, at + CHUNK) for at in range(FIRST, FIRST + SEEDS, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        outcomes = [outcome for found in pool.map(run_chunk, chunks) for outcome in found]
    failed = [
        f"{o.violation}; python -m controller.sim.chaos --seed {o.seed} --trace"
        for o in outcomes
        if o.violation is not None
    ]
    assert not failed, "\n".join(failed)
    assert len(outcomes) == SEEDS
    assert sum(outcome.accepted for outcome in outcomes) > 20 * SEEDS
    assert all(sum(getattr(o, what) for o in outcomes) > SEEDS for what in ("losing", "unreadable"))


def test_a_seed_is_one_run() -> None:
    assert run_seed(7, is_tracing=True) == run_seed(7, is_tracing=True)


def judge_with(*served: tuple[str, frozenset[str]]) -> Judge:
    return Judge("channel", lambda: served)


def see(judge: Judge, bundle: str, state: S, version: int, **more: object) -> None:
    data = ServiceUnitStateData(state=state, versionId=version, timestamp=0, **more)
    value = encode_channel(data)
    judge.see(LogRecord(0, "channel", 0, 0, bundle, value, (), 0))
    judge.look()


def test_the_judge_sees_two_servers() -> None:
    judge_with(("b1", frozenset({LOW})), ("b2", frozenset({HIGH}))).look()
    for other in (LOW, WHOLE):
        with pytest.raises(Violation, match="serves"):
            judge_with(("b1", frozenset({LOW})), ("b2", frozenset({other}))).look()
    with pytest.raises(Violation, match="serves"):
        judge_with(("b1", frozenset({WHOLE, HIGH}))).look()


def test_the_judge_sees_a_skipped_version_and_a_transition_that_is_none() -> None:
    judge = judge_with()
    see(judge, LOW, S.Assigning, 1, dstBroker="b1")
    see(judge, LOW, S.Owned, 1, dstBroker="b2")
    assert (judge.accepted, judge.losing) == (1, 1)
    with pytest.raises(Violation, match="version 3"):
        see(judge, LOW, S.Owned, 3, dstBroker="b1")


def test_the_judge_sees_holes_and_two_lives() -> None:
    judge = judge_with()
    see(judge, LOW, S.Owned, 1, dstBroker="b1")
    see(judge, HIGH, S.Owned, 1, dstBroker="b1")
    with pytest.raises(Violation, match="both alive"):
        see(judge, WHOLE, S.Owned, 1, dstBroker="b1")
    judge = judge_with()
    see(judge, WHOLE, S.Owned, 1, dstBroker="b1")
    parts = dict.fromkeys((LOW.rpartition("/")[2], HIGH.rpartition("/")[2]))
    see(judge, WHOLE, S.Splitting, 2, sourceBroker="b1", splitServiceUnitToDestBroker=parts)
    see(judge, LOW, S.Owned, 1, dstBroker="b1")
    with pytest.raises(Violation, match="hole"):
        see(judge, WHOLE, S.Deleted, 3, sourceBroker="b1")


def test_the_judge_sees_what_does_not_end_well() -> None:
    for state in sorted(IN_FLIGHT):
        judge = judge_with()
        see(judge, LOW, state, 1, dstBroker="b1", sourceBroker="b1")
        with pytest.raises(Violation, match="still"):
            judge.ended()
    judge = judge_with(("b2", frozenset({HIGH})))
    see(judge, LOW, S.Owned, 1, dstBroker="b1")
    with pytest.raises(Violation, match="does not serve"):
        judge.ended()


def test_the_judge_sees_an_old_epoch() -> None:
    judge = judge_with()
    for epoch, is_bad in ((b"1", False), (b"2", False), (b"1", True)):
        record = LogRecord(0, "channel", 0, 0, LOW, None, (("epoch", epoch),), 0)
        if is_bad:
            with pytest.raises(Violation, match="epoch 1 after"):
                judge.see(record)
        else:
            judge.see(record)


def test_the_times_of_the_simulation_keep_the_inequalities_of_a_configuration() -> None:
    core, agent, runtime = SCALE.core, SCALE.agent, SCALE.runtime
    config = load_config(
        None,
        {
            "clusters.sim.channel": "bundle-state-sim",
            **{f"agent.{k}": getattr(agent, k) for k in agent.__dataclass_fields__},
            "agent.poll_interval_ms": runtime.poll_interval_ms,
            "agent.backoff_max_ms": runtime.backoff_max_ms,
            "agent.backoff_min_ms": runtime.backoff_min_ms,
            "agent.busy_wait_ms": 1,
            "transport.busy_wait_ms": 1,
            **{
                f"balance.{part}.{k}": getattr(getattr(core, part), k)
                for part in ("rounds", "liveness", "actions")
                for k in getattr(core, part).__dataclass_fields__
            },
        },
    )
    assert problems_in(config) == []
