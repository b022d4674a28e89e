from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from streaming.routing import UNROUTED, with_cluster

pytestmark = pytest.mark.spark

CASES = [
    ("bundle-state-east", "t/n/0x00000000_0x80000000", "east"),
    ("bundle-state-east", None, "east"),
    ("pulsar-loads", "broker-1:8080", "west"),
    ("load-reports", "east/b1", "east"),
    ("load-reports", "west/b1/x", "west"),
    ("load-reports", "east", UNROUTED),  # a broker may be called like a cluster
    ("load-reports", "north/b1", UNROUTED),
    ("load-reports", "/b1", UNROUTED),
    ("load-reports", "", UNROUTED),
    ("load-reports", None, UNROUTED),
    ("load-reports", "EAST/b1", UNROUTED),
    ("controller-commands", "east/_tick", "east"),
    ("bundle-state-north", "t/n/0x00000000_0x80000000", UNROUTED),
]


def test_cluster_of_each_record(spark: SparkSession) -> None:
    rows = [(n, topic, key) for n, (topic, key, _) in enumerate(CASES)]
    records = spark.createDataFrame(rows, "n int, topic string, key string")
    mapped = {"bundle-state-east": "east", "bundle-state-west": "west", "pulsar-loads": "west"}

    routed = with_cluster(records, ["east", "west"], mapped).orderBy("n").collect()

    assert [row.cluster for row in routed] == [cluster for _, _, cluster in CASES]
