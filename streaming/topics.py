"""Creates the job's topics. Called by `streaming.job` and `streaming.rehearsal`."""

from __future__ import annotations

from controller.transport.port import Transport
from streaming.plan import JobPlan


def create_topics(plan: JobPlan, log_file: Transport) -> None:
    """Creates the topics that are missing; those that exist keep their partitions."""
    present = set(log_file.topics())
    wanted = {topic: (plan.report_partitions, "delete") for topic in plan.report_topics}
    wanted |= {topic: (1, "compact") for topic in plan.channels.values()}
    for topic in (plan.commands_topic, plan.decisions_topic, plan.dead_letters_topic):
        wanted[topic] = (1, "delete")
    for topic, (partitions, cleanup) in sorted(wanted.items()):
        if topic not in present:
            log_file.create_topic(topic, partitions, cleanup)
