"""The grouping key: which cluster a record belongs to, told from its topic and key alone.

Never from the value: what is in there is decoded once, in the operator. Plain Spark expressions,
so that no Python runs before the shuffle. A record that names no configured cluster goes to the
group `_unrouted`, whose only product is dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

UNROUTED = "_unrouted"


def with_cluster(
    records: DataFrame, clusters: Sequence[str], topic_clusters: Mapping[str, str]
) -> DataFrame:
    """Adds the column `cluster` to records with columns `topic` and `key`.

    `topic_clusters` maps channel topics, and load-report topics that belong to one cluster as a
    whole, to their cluster; all others are told by the part of the key before the first `/`.
    """
    named = F.substring_index(F.col("key"), "/", 1)
    is_known = F.col("key").contains("/") & named.isin(*clusters)
    route = F.when(is_known, named).otherwise(F.lit(UNROUTED))
    return records.withColumn("cluster", _by_topic(topic_clusters, route))


def _by_topic(topic_clusters: Mapping[str, str], otherwise: Column) -> Column:
    route = otherwise
    for topic, cluster in sorted(topic_clusters.items()):
        route = F.when(F.col("topic") == topic, F.lit(cluster)).otherwise(route)
    return route
