"""What holds for every strategy whatever the cluster looks like (parity off), by hypothesis.

Shedders: what may move, where to, and that no pair is made worse; the same answer in any order;
peace in an even cluster. Placements: candidates, pins, replays, bookings, draws. Splits: what may
be cut, where, and how often. Transfers whose destination the placement chooses are guarded by the
round itself, so that guard is tested through `step`.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from controller.core.settings import Settings
from controller.strategies.memory import Memory
from controller.strategies.params import (
    AvgParams,
    OverloadParams,
    ThresholdParams,
    ThresholdSplitParams,
    TransferParams,
    UniformParams,
)
from controller.strategies.place.booking import expected_rate
from controller.strategies.protocols import (
    PLACED,
    Choice,
    Placement,
    ShedPlan,
    SplitPlan,
    Unowned,
)
from controller.strategies.registry import PLACE, SHED, SPLIT
from controller.strategies.split.boundaries import ALGORITHMS
from controller.strategies.view import ClusterView, TopicLoads
from tests.views import B, make_view
from tests.world import SETTINGS as WORLD
from tests.world import World, serving, world

PLACING = ("overload", "threshold", "uniform")
"""Shedders that leave the destination to the placement."""
NAMING = tuple(name for name in SHED if name not in PLACING)
EAGER = Settings(
    avg=AvgParams(hit_count_low=1, hit_count_high=1, min_unload_rate=10.0),
    threshold=ThresholdParams(min_unload_throughput=1.0, is_lower_boundary_enabled=True),
    uniform=UniformParams(min_unload_rate=1.0, min_unload_throughput=1.0),
    transfer=TransferParams(target_std_ratio=0.1, hit_count=1),
    thresholds=ThresholdSplitParams(
        topics_max=50, rate_max=2_000.0, throughput_max=2e6, hit_count=1
    ),
)
"""Acts in the first round, on small clusters."""
WIDTH = 0x1000000  # of a bundle of `make_view`

many = settings(
    max_examples=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def for_each(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Holds a property against every strategy on each example, which is dear to make."""

    def held(check: Callable[..., None]) -> Callable[..., None]:
        def test(**drawn: object) -> None:
            for name in names:
                note(f"strategy: {name}")
                check(name=name, **drawn)

        test.__name__, test.__qualname__, test.__doc__ = (
            check.__name__,
            check.__name__,
            check.__doc__,
        )
        return test

    return held


# ------------------------------------------------------------------------------ clusters
@dataclass(frozen=True)
class Row(B):
    """A bundle that may also have a decision in flight while its owner still serves it."""

    is_in_flight: bool = False


def rare(chance: int = 6) -> st.SearchStrategy[bool]:
    """True now and then."""
    return st.integers(0, chance - 1).map(lambda n: n == chance - 1)


def rows(names: Sequence[str]) -> st.SearchStrategy[Row]:
    """One bundle; idle ones have neither traffic nor load, as `attributed_load` makes it."""
    traffic = st.tuples(
        st.sampled_from([0.5, 40.0, 1_200.0, 2_500.0, 4_000.0, 9_000.0]),
        st.sampled_from([0.0, 5e4, 3e5, 1e6, 2.5e6, 7e6]),
        st.sampled_from([0.5, 1.0, 4.0, 9.0, 16.0, 33.0]),
    )
    return st.builds(
        lambda owner, figures, **more: Row(owner, *figures[:2], load=figures[2], **more),
        owner=st.sampled_from([*names, *names, None]),
        figures=st.one_of(*[traffic] * 5, st.just((0.0, 0.0, 0.0))),
        topics=st.integers(0, 120),
        sessions=st.sampled_from([0, 10, 2_000]),
        namespace=st.sampled_from(["t/n", "t/nextra", "a/z"]),
        is_movable=rare().map(lambda is_rare: not is_rare),
        is_excluded=rare(),
        is_pinned=rare(),
        is_in_flight=rare(),
        is_splitting=rare(8),
        has_policy=rare(),
        left=st.sampled_from([None, None, None, *names]),
        topic_boundary=st.sampled_from([0, 1, WIDTH // 2]),
    )


@st.composite
def clusters(draw: st.DrawFn, *, is_mixed: bool | None = None) -> ClusterView:
    """A consistent view: what may move is owned, settled, not pinned, not excluded."""
    names = [f"b{i}" for i in range(draw(st.integers(1, 6)))]
    points = {name: float(draw(st.integers(0, 100))) for name in names}
    bundles = draw(st.lists(rows(names), max_size=12))
    mixed = draw(st.booleans()) if is_mixed is None else is_mixed
    sizes = st.sampled_from([0.0, 100.0, 400.0]) if mixed else st.just(100.0)
    view = make_view(
        points,
        bundles,
        capacities={name: draw(sizes) for name in names},
        frozen=[name for name in names if draw(rare())],
        silent=[name for name in names if draw(rare(8))],
        topics={name: draw(st.sampled_from([0, 100, 60_000])) for name in names},
    )
    is_drained = np.array([draw(rare(8)) for _ in names], np.bool_)
    in_flight = np.array([row.is_in_flight for row in bundles], np.bool_)
    settled = view.bundle_is_settled.astype(np.bool_) & ~in_flight
    return replace(
        view,
        broker_is_live=view.broker_is_live & ~is_drained,
        broker_can_shed=view.broker_can_shed & ~is_drained,
        bundle_is_settled=settled,
        bundle_is_movable=view.bundle_is_movable & settled & ~view.bundle_is_excluded,
        topics={at: draw(topics_of(view, at)) for at in range(len(bundles)) if draw(rare(3))},
    )


def topics_of(view: ClusterView, bundle: int) -> st.SearchStrategy[TopicLoads]:
    """Topics of a bundle, equal hashes among them, some without traffic."""
    lower = int(view.bundle_lower[bundle])
    hashes = st.sampled_from([0, 1, 2, WIDTH // 3, WIDTH // 2, WIDTH - 1])
    one = st.tuples(hashes, st.sampled_from([0.0, 900.0, 1_900.0]), st.just(0.0))
    return st.lists(one, min_size=1, max_size=8).map(
        lambda all_of_them: TopicLoads(
            np.array([lower + h for h, _, _ in sorted(all_of_them)], np.int64),
            np.array([rate for _, rate, _ in sorted(all_of_them)]),
            np.array([size for _, _, size in sorted(all_of_them)]),
        )
    )


def reordered(view: ClusterView, order: Sequence[int]) -> ClusterView:
    """The same cluster with its bundles in another order, and its namespaces backwards."""
    at = np.array(order, np.int64)
    changed = {
        one.name: getattr(view, one.name)[at]
        for one in fields(ClusterView)
        if one.name.startswith("bundle_") and one.name != "bundle_names"
    }
    changed["bundle_namespace"] = len(view.namespaces) - 1 - changed["bundle_namespace"]
    place = {int(old): new for new, old in enumerate(order)}
    return replace(
        view,
        **changed,
        bundle_names=[view.bundle_names[old] for old in order],
        namespaces=view.namespaces[::-1],
        namespace_bundles=view.namespace_bundles[::-1],
        namespace_rank=view.namespace_rank[::-1],
        topics={place[old]: loads for old, loads in view.topics.items()},
    )


@st.composite
def two_orders(draw: st.DrawFn) -> tuple[ClusterView, ClusterView]:
    """The same cluster twice."""
    view = draw(clusters())
    order = draw(st.permutations(range(len(view.bundle_names))))
    return view, reordered(view, order)


def shed(name: str, view: ClusterView, memory: Memory | None = None) -> ShedPlan:
    return SHED[name](EAGER).shed(view, memory or {})


def by_name(view: ClusterView, plan: ShedPlan) -> list[tuple[str, str, object, str]]:
    """Transfers without indices."""
    return [
        (
            view.bundle_names[t.bundle],
            view.broker_names[t.source],
            view.broker_names[t.destination] if t.destination >= 0 else t.destination,
            t.reason,
        )
        for t in plan.transfers
    ]


# ------------------------------------------------------------------------------ shedding
@pytest.mark.parametrize("name", SHED)
def test_every_shedder_relieves_a_hot_broker(name: str) -> None:
    """The properties below would prove little of a shedder that never acts."""
    hot = [B("a", rate=r * 1e3, throughput=r * 1e6, load=r * 4.5) for r in (1, 2, 3, 4, 5, 5)]
    cold = [B("b", rate=500.0, throughput=5e5, load=2.5) for _ in range(4)]
    plan = shed(name, make_view({"a": 90, "b": 10}, [*hot, *cold]))

    assert plan.transfers


@many
@given(view=clusters())
@for_each(SHED)
def test_only_what_may_move_is_moved_once_and_from_its_owner(name: str, view: ClusterView) -> None:
    transfers = shed(name, view).transfers

    assert len(transfers) == len({t.bundle for t in transfers})
    for transfer in transfers:
        at = transfer.bundle
        assert view.bundle_owner[at] == transfer.source >= 0
        assert view.broker_can_shed[transfer.source]
        assert view.bundle_is_movable[at]
        assert view.bundle_is_settled[at]
        assert not view.bundle_is_excluded[at]
        assert not view.bundle_is_pinned[at]
        assert view.bundle_rate[at] + view.bundle_throughput[at] > 0.0


@many
@given(view=clusters())
@for_each(SHED)
def test_a_named_destination_lives_takes_part_and_may_have_the_bundle(
    name: str, view: ClusterView
) -> None:
    for transfer in shed(name, view).transfers:
        to = transfer.destination
        assert (to == PLACED) == (name in PLACING)
        if to >= 0:
            assert to != transfer.source
            assert view.broker_is_live[to]
            assert view.broker_can_shed[to]
            assert view.bundle_left[transfer.bundle] != to


@many
@given(views=two_orders())
@for_each(SHED)
def test_shedding_does_not_depend_on_any_order(
    name: str, views: tuple[ClusterView, ClusterView]
) -> None:
    first, second = (shed(name, view) for view in views)

    assert by_name(views[0], first) == by_name(views[1], second)
    assert (first.memory, first.verdicts, first.skip) == (
        second.memory,
        second.verdicts,
        second.skip,
    )


def test_views_do_not_depend_on_the_order_in_which_brokers_are_named() -> None:
    """`make_view` sorts brokers as the core does, so any order of them is the same view."""
    bundles = [B("c", rate=5e3), B("a", rate=1e3)]
    first = make_view({"a": 10, "b": 20, "c": 90}, bundles)
    second = make_view({"c": 90, "b": 20, "a": 10}, bundles)

    assert first.broker_names == second.broker_names
    assert first.broker_load.tolist() == second.broker_load.tolist()
    assert first.bundle_owner.tolist() == second.bundle_owner.tolist()


def flows(view: ClusterView, plan: ShedPlan, sizes: np.ndarray) -> np.ndarray:
    """[m, m] what goes from a broker to another one."""
    amounts = np.zeros((len(view.broker_names),) * 2)
    for transfer in plan.transfers:
        amounts[transfer.source, transfer.destination] += sizes[transfer.bundle]
    return amounts


def pairs(plan: ShedPlan) -> set[tuple[int, int]]:
    return {tuple(sorted((t.source, t.destination))) for t in plan.transfers}  # type: ignore[misc]


def is_no_worse(before: tuple[float, float], after: tuple[float, float]) -> bool:
    return max(after) <= max(before) * (1 + 1e-9) + 1e-9


def pair_is_no_worse(
    broker: np.ndarray, amounts: np.ndarray, one: int, other: int, scale: np.ndarray | None = None
) -> bool:
    """`scale[a, b]`: what one unit that leaves a is on b."""
    factor = np.ones_like(amounts) if scale is None else scale
    to, back = amounts[one, other], amounts[other, one]
    return is_no_worse(
        (broker[one], broker[other]),
        (
            broker[one] - to + back * factor[other, one],
            broker[other] - back + to * factor[one, other],
        ),
    )


@many
@given(view=clusters(is_mixed=False))
def test_avg_never_worsens_the_traffic_of_a_pair(view: ClusterView) -> None:
    plan = shed("avg", view)
    for one, other in pairs(plan):
        hot = next(t.source for t in plan.transfers if {t.source, t.destination} == {one, other})
        gap = view.broker_rate[hot] - view.broker_rate[one + other - hot]
        is_by_rate = gap * EAGER.avg.max_unload_ratio > EAGER.avg.min_unload_rate
        sizes = view.bundle_rate if is_by_rate else view.bundle_throughput
        figures = view.broker_rate if is_by_rate else view.broker_throughput
        assert pair_is_no_worse(figures, flows(view, plan, sizes), one, other)


@many
@given(view=clusters(is_mixed=True))
def test_avg_never_worsens_the_loads_of_a_pair_of_different_capacities(view: ClusterView) -> None:
    """A unit of traffic costs each broker what its capacity makes of it."""
    plan = shed("avg", view)
    for one, other in pairs(plan):
        have, get = view.broker_capacity[one], view.broker_capacity[other]
        if have == get or not have or not get:
            continue
        assert any(
            loads_are_no_worse(view, plan, totals, sizes, one, other)
            for totals, sizes in (
                (view.broker_rate, view.bundle_rate),
                (view.broker_throughput, view.bundle_throughput),
            )
        )


def loads_are_no_worse(
    view: ClusterView, plan: ShedPlan, totals: np.ndarray, sizes: np.ndarray, one: int, other: int
) -> bool:
    """As above, with loads that follow one figure of the traffic."""
    hot = next(t.source for t in plan.transfers if {t.source, t.destination} == {one, other})
    if totals[hot] <= 0.0:
        return False
    cold = one + other - hot
    share = flows(view, plan, sizes)[hot, cold] / totals[hot]
    lost = share * view.broker_load[hot]
    got = lost * view.broker_capacity[hot] / view.broker_capacity[cold]
    return is_no_worse(
        (view.broker_load[hot], view.broker_load[cold]),
        (view.broker_load[hot] - lost, view.broker_load[cold] + got),
    )


@many
@given(view=clusters())
def test_biggest_first_never_worsens_the_loads_of_its_pair(view: ClusterView) -> None:
    plan = shed("biggest_first", view)

    assert len(plan.transfers) <= 1
    for one, other in pairs(plan):
        amounts = flows(view, plan, view.bundle_load)
        assert pair_is_no_worse(view.broker_load, amounts, one, other)


@many
@given(view=clusters())
def test_transfer_never_worsens_the_throughput_of_a_pair_where_load_follows_it(
    view: ClusterView,
) -> None:
    """It ties loads to throughputs by one factor (pulsar.md §3.7, step 3)."""
    load = view.broker_throughput / max(1.0, float(view.broker_throughput.max(initial=0.0)))
    view = replace(view, broker_load=load, broker_load_ema=load)
    plan = shed("transfer", view)
    for one, other in pairs(plan):
        amounts = flows(view, plan, view.bundle_throughput)
        assert pair_is_no_worse(view.broker_throughput, amounts, one, other)


@many
@given(view=clusters())
def test_transfer_never_worsens_loads_and_throughput_at_once(view: ClusterView) -> None:
    """Loads that do not follow throughput: by its estimate of the loads, or by a swap's rule."""
    plan = shed("transfer", view)
    amounts = flows(view, plan, view.bundle_throughput)
    for one, other in pairs(plan):
        hot = one if view.broker_load_ema[one] > view.broker_load_ema[other] else other
        factor = view.broker_load_ema[hot] / view.broker_throughput[hot]
        assert pair_is_no_worse(view.broker_throughput, amounts, one, other) or pair_is_no_worse(
            view.broker_load_ema, amounts * factor, one, other
        )


@settings(many, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), brokers=st.integers(2, 12))
@for_each(SHED)
def test_an_even_cluster_with_noise_is_left_alone(name: str, seed: int, brokers: int) -> None:
    """20 rounds with the default parameters: loads 50 points, all figures +-5 %."""
    noise = random.Random(seed)
    names = [f"b{i:02d}" for i in range(brokers)]
    strategy, memory = SHED[name](Settings()), {}
    for _ in range(20):
        bundles = [
            B(n, rate=1e4 * f, throughput=1e7 * f, load=5.0 * f)
            for n in names
            for f in [noise.uniform(0.95, 1.05)]
            for _ in range(10)
        ]
        points = {n: 50.0 * noise.uniform(0.95, 1.05) for n in names}
        plan = strategy.shed(make_view(points, bundles), memory)
        memory = plan.memory

        assert plan.transfers == ()


# ------------------------------------------------------------------------------- placing
@st.composite
def requests(draw: st.DrawFn) -> tuple[ClusterView, list[Unowned]]:
    """A cluster, and bundles that need an owner: of the view, and new ones."""
    view = draw(clusters())
    brokers = range(len(view.broker_names))
    unowned = np.flatnonzero(view.bundle_owner < 0).tolist()
    asked = []
    for number in range(draw(st.integers(1, 8))):
        at = unowned[number] if number < len(unowned) and draw(st.booleans()) else -1
        name = view.bundle_names[at] if at >= 0 else f"t/new/{number}"
        some = draw(st.sets(st.sampled_from(brokers), min_size=1)) if draw(rare(3)) else None
        asked.append(
            Unowned(
                name,
                topics=draw(st.sampled_from([0, 10, 30_000])),
                load=draw(st.sampled_from([0.0, 0.05, 0.2])),
                avoid=draw(st.sampled_from([-1, -1, *brokers])),
                pinned=draw(st.sampled_from(brokers)) if draw(rare()) else -1,
                at=at,
                candidates=None if some is None else np.array(sorted(some), np.int64),
            )
        )
    return view, asked


def begin(name: str, view: ClusterView, memory: Memory | None = None) -> Placement:
    return PLACE[name](EAGER).begin(view, memory or {})


def able(name: str, view: ClusterView, bundle: Unowned) -> list[int]:
    """Brokers that a placement may name at all."""
    if name == "least_resource":
        known = view.broker_can_shed if view.broker_can_shed.any() else view.broker_is_live
        if bundle.candidates is None:
            return np.flatnonzero(known).tolist()
        allowed = bundle.candidates.tolist()
        spare = np.flatnonzero(view.broker_is_live & ~known).tolist()
        found = [b for b in allowed if known[b]]
        return found or [b for b in allowed if b in spare]
    if bundle.candidates is not None:
        return bundle.candidates.tolist()
    return np.flatnonzero(view.broker_is_live).tolist()


@many
@given(case=requests())
@for_each(PLACE)
def test_a_choice_is_a_candidate_and_avoids_what_it_should(
    name: str, case: tuple[ClusterView, list[Unowned]]
) -> None:
    view, asked = case
    placement = begin(name, view)
    for bundle in asked:
        choice, candidates = placement.choose(bundle), able(name, view, bundle)
        if bundle.pinned >= 0:
            assert choice.broker == bundle.pinned
        elif not candidates:
            assert choice.broker == -1
            assert choice.verdict is not None
        else:
            assert choice.broker in candidates
            assert choice.load > 0.0
            assert not choice.best or choice.broker in choice.best
            others = [b for b in candidates if b != bundle.avoid]
            if name == "least_resource":  # a full broker is no better than the one to avoid
                others = [b for b in others if view.broker_topics[b] < 50_000]
                others = others if all(one.topics == 0 for one in asked) else []
            assert choice.broker != bundle.avoid or not others


@many
@given(case=requests())
@for_each(PLACE)
def test_a_placement_is_replayed_by_the_same_memory_and_view(
    name: str, case: tuple[ClusterView, list[Unowned]]
) -> None:
    view, asked = case
    memory = begin(name, view).memory
    for _ in range(2):  # from the first memory, then from one that was used
        before = copy.deepcopy(memory)
        first, second = begin(name, view, memory), begin(name, view, memory)
        for bundle in asked:
            assert first.choose(bundle) == second.choose(bundle)
        assert first.memory == second.memory
        assert memory == before
        memory = first.memory


@many
@given(case=requests(), data=st.data())
@for_each(PLACE)
def test_a_choice_does_not_depend_on_the_order_of_the_bundles(
    name: str, case: tuple[ClusterView, list[Unowned]], data: st.DataObject
) -> None:
    """Draws too: the generator and the brokers do not see the bundles' places."""
    view, asked = case
    order = data.draw(st.permutations(range(len(view.bundle_names))))
    other, place = reordered(view, order), {old: new for new, old in enumerate(order)}
    first, second = begin(name, view), begin(name, other)
    for bundle in asked:
        moved = replace(bundle, at=place[bundle.at]) if bundle.at >= 0 else bundle
        assert first.choose(bundle) == second.choose(moved)
    assert first.memory == second.memory


def booked(view: ClusterView, bundle: Unowned, choice: Choice) -> ClusterView:
    """The view with one assignment pending, as `controller.core.view.build` applies it."""
    to = choice.broker
    if to < 0:
        return view
    known = bundle.at >= 0
    long = view.bundle_long[bundle.at] if known else np.zeros(4)
    added = {
        "broker_load": choice.load,
        "broker_load_ema": choice.load,
        "broker_long_rate": expected_rate(long),
        "broker_rate": float(view.bundle_rate[bundle.at]) if known else 0.0,
        "broker_throughput": float(view.bundle_throughput[bundle.at]) if known else 0.0,
        "broker_topics": bundle.topics,
        "broker_bundles": 1,
    }
    changed = {column: getattr(view, column).copy() for column in added}
    for column, more in added.items():
        changed[column][to] += more
    return replace(view, **changed)


@many
@given(case=requests())
@for_each(PLACE)
def test_booking_leaves_what_beginning_anew_leaves(
    name: str, case: tuple[ClusterView, list[Unowned]]
) -> None:
    """`protocols.Placement`: one placement for all, or a new one for each on what is pending."""
    view, asked = case
    at_once, memory = begin(name, view), {}
    for bundle in asked:
        anew = begin(name, view, memory)
        choice = anew.choose(bundle)
        assert at_once.choose(bundle) == choice
        memory = anew.memory
        assert at_once.memory == memory
        view = booked(view, bundle, choice)


@pytest.mark.parametrize("name", PLACE)
def test_an_idle_broker_is_idle_no_more_once_it_was_given_traffic(name: str) -> None:
    """The modular usage of a broker begins anew while that is idle."""
    view = make_view({"a": 80, "b": 0}, [B("a", rate=100.0, load=10), B(None, rate=50.0)])
    at_once, memory = begin(name, view), {}
    given = Unowned(view.bundle_names[1], 1, 0.3, -1, at=1)
    for bundle in [given, *(Unowned(f"t/new/{n}", 1, 0.3, -1) for n in range(3))]:
        anew = begin(name, view, memory)
        choice = anew.choose(bundle)
        memory = anew.memory
        assert (at_once.choose(bundle), at_once.memory) == (choice, memory)
        view = booked(view, bundle, choice)


@pytest.mark.parametrize("name", [name for name in PLACE if name != "least_resource"])
@pytest.mark.parametrize("brokers", [2, 3, 7, 20])
def test_equally_good_brokers_are_all_drawn(name: str, brokers: int) -> None:
    """Draws come from a generator with a fixed first state: the same in every run."""
    view = make_view({f"b{i:02d}": 50.0 for i in range(brokers)}, [])
    memory: Memory = {}
    drawn = set()
    for number in range(12 * brokers):
        placement = begin(name, view, memory)
        drawn.add(placement.choose(Unowned(f"t/n/{number}", 0, 0.0, -1)).broker)
        memory = placement.memory

    assert drawn == set(range(brokers))


# ----------------------------------------------------------------- placing what was shed
@dataclass
class Watched(World):
    """A world that keeps, for each transfer of a round, the loads around it."""

    moved: list[tuple[float, float]] = field(default_factory=list)

    def append(self, topic: str, key: str | None, value: bytes | None, partition: int = 0) -> None:
        super().append(topic, key, value, partition)
        for line in self.results[-1].rounds:
            told = msgspec.json.decode(line)
            if told["type"] == "round":
                self._watch(told["statistics"]["loads"], told["plan"]["decisions"])

    def _watch(self, loads: dict[str, float], decisions: list[dict]) -> None:
        """(load of the source before, of the destination after), move by move."""
        for decision in decisions:
            if decision["kind"] == "transfer":
                move = self.state.memory.moves[decision["bundle"]]
                source, to = decision["from"], decision["to"]
                self.moved.append((loads[source], loads[to] + move.load_destination))
                loads[source] -= move.load_source
                loads[to] += move.load_destination


def heated(shed: str, place: str, seed: int) -> Watched:
    """Brokers of different capacities, and bundles that become hotter and cooler meanwhile."""
    rng = random.Random(seed)
    plain = world(brokers=4, bundles=24, seed=seed)
    capacities = {name: size * rng.choice([0.5, 1.0, 2.0]) for name, size in plain.brokers.items()}
    eager = replace(
        WORLD,
        shed=shed,
        place=place,
        overload=OverloadParams(overloaded_points=60.0),
        threshold=ThresholdParams(margin_points=5.0, history_ratio=0.5, min_unload_throughput=1.0),
        uniform=UniformParams(min_unload_rate=1.0, min_unload_throughput=1.0),
    )
    w = serving(Watched(capacities, plain.bundles, eager, seed))
    for _ in range(5):
        for bundle in sorted(w.bundles):
            w.bundles[bundle] *= rng.choice([0.5, 1.0, 1.0, 1.8])
        w.run(3_000)
    return w


@pytest.mark.parametrize("place", PLACE)
@pytest.mark.parametrize("shed", PLACING)
def test_a_round_never_makes_a_destination_hotter_than_the_source_was(
    shed: str, place: str
) -> None:
    """`core.rounds.balance` guards what these shedders leave to the placement."""
    moved = [move for seed in range(3) for move in heated(shed, place, seed).moved]

    assert moved
    assert all(after <= before + 1e-9 for before, after in moved)


# ----------------------------------------------------------------------------- splitting
def split(name: str, view: ClusterView, algorithm: str, **more: int) -> SplitPlan:
    params = replace(EAGER.thresholds, algorithm=algorithm, **more)
    return SPLIT[name](replace(EAGER, thresholds=params)).split(view, {})


algorithms = st.sampled_from(sorted(ALGORITHMS))


@pytest.mark.parametrize("name", SPLIT)
def test_every_split_strategy_splits_a_big_bundle(name: str) -> None:
    view = make_view({"a": 50}, [B("a", rate=9e3, topics=20)])

    assert len(split(name, view, "range_equally_divide").splits) == 1


@many
@given(algorithm=algorithms, view=clusters())
@for_each(SPLIT)
def test_only_what_may_be_split_is_split_once(name: str, algorithm: str, view: ClusterView) -> None:
    splits = split(name, view, algorithm).splits

    assert len(splits) == len({s.bundle for s in splits})
    for at in (s.bundle for s in splits):
        assert view.bundle_owner[at] >= 0
        assert view.bundle_is_movable[at]
        assert not view.bundle_is_pinned[at]
        assert not view.bundle_is_excluded[at]
        assert view.bundle_topics[at] >= 2


@many
@given(algorithm=algorithms, view=clusters())
@for_each(SPLIT)
def test_boundaries_are_ascending_and_strictly_inside(
    name: str, algorithm: str, view: ClusterView
) -> None:
    for one in split(name, view, algorithm).splits:
        edges = [view.bundle_lower[one.bundle], *one.boundaries, view.bundle_upper[one.bundle]]

        assert one.boundaries
        assert all(a < b for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("name", SPLIT)
@many
@given(
    algorithm=algorithms,
    view=clusters(),
    bundles_max=st.integers(1, 12),
    splits_max=st.integers(1, 3),
)
def test_caps_of_the_namespace_and_of_the_round_hold(
    name: str, algorithm: str, view: ClusterView, bundles_max: int, splits_max: int
) -> None:
    limits = {"namespace_bundles_max": bundles_max, "splits_per_round_max": splits_max}
    splits = split(name, view, algorithm, **limits).splits
    added = Counter[int]()
    for one in splits:
        added[int(view.bundle_namespace[one.bundle])] += len(one.boundaries)

    assert all(view.namespace_bundles[n] + more <= bundles_max for n, more in added.items())
    assert name == "long_term" or len(splits) <= splits_max


@many
@given(algorithm=algorithms, views=two_orders(), bundles_max=st.integers(1, 12))
@for_each(SPLIT)
def test_splitting_does_not_depend_on_any_order(
    name: str, algorithm: str, views: tuple[ClusterView, ClusterView], bundles_max: int
) -> None:
    first, second = (
        split(name, view, algorithm, namespace_bundles_max=bundles_max) for view in views
    )

    assert [
        (views[0].bundle_names[s.bundle], s.boundaries, s.reason, s.detail) for s in first.splits
    ] == [
        (views[1].bundle_names[s.bundle], s.boundaries, s.reason, s.detail) for s in second.splits
    ]
    assert (first.memory, first.verdicts, first.failures) == (
        second.memory,
        second.verdicts,
        second.failures,
    )
