"""The job's plan from the configuration file. Called by `streaming.main`."""

from __future__ import annotations

from controller.config import JobConfig
from streaming.plan import JobPlan


def plan_of(config: JobConfig, is_standby: bool = False) -> JobPlan:
    """Everything that the job needs, each cluster with its own settings."""
    job = config.job
    return JobPlan(
        transport=config.transport,
        checkpoint=job.checkpoint,
        clusters={name: config.settings_for(name) for name in sorted(config.clusters)},
        name=job.name,
        report_topic_clusters=config.report_topic_clusters,
        report_partitions=config.topics.partitions,
        decisions_topic=config.topics.decision_log,
        dead_letters_topic=config.topics.dead_letters,
        is_acting=config.is_acting,
        may_adopt=job.may_adopt,
        master=job.master,
        shuffle_partitions=job.shuffle_partitions,
        trigger_ms=job.trigger_ms,
        rows_max=job.max_rows_per_trigger,
        bytes_max=job.max_bytes_per_trigger,
        read_partitions=job.read_partitions,
        lease_ttl_ms=config.lease.ttl_ms,
        lease_wait_ms=config.lease.wait_ms,
        is_standby=is_standby,
        http_host=config.metrics.host,
        http_port=config.metrics.port,
        ui_port=job.ui_port or None,
        spark_conf={"spark.driver.memory": job.driver_memory, **job.spark_conf},
    )
