from __future__ import annotations

import pytest

from controller.load.namespaces import belongs_to_a_broker, is_never_shed, left_out


@pytest.mark.parametrize(
    "namespace",
    ["pulsar/use/broker-1:8080", "pulsar/broker-1:8080", "sla-monitor/use/b:1", "sla-monitor/b:1"],
)
def test_heartbeat_and_sla_namespaces_belong_to_a_broker(namespace: str) -> None:
    assert belongs_to_a_broker(namespace)
    assert is_never_shed(namespace)


@pytest.mark.parametrize(
    "namespace", ["public/default", "pulsar/other", "t/sla-monitor", "pulsarx/a:1"]
)
def test_others_do_not(namespace: str) -> None:
    assert not is_never_shed(namespace)


def test_the_system_namespace_is_not_shed_but_belongs_to_no_broker() -> None:
    assert is_never_shed("pulsar/system")
    assert not belongs_to_a_broker("pulsar/system")


def test_excluded_ones_go_by_their_exact_name_and_policies_by_the_switch() -> None:
    names = ["t/a", "t/ab", "t/policy", "pulsar/system", "t/a"]
    assert left_out(names, ["t/a"], ["t/policy"]).tolist() == [True, False, True, True, True]
    switched = left_out(names, ["t/a"], ["t/policy"], sheds_with_policies=True)
    assert switched.tolist() == [True, False, False, True, True]
    assert left_out([]).tolist() == []
