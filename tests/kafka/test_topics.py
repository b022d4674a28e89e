"""Topics on a real broker: made by command or by the job, checked, mended, refused."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient
from typer.testing import CliRunner, Result

from controller.cli.main import app
from controller.config import load_config
from controller.transport.errors import TopicSettingsError
from controller.transport.kafka.log import KafkaLog
from controller.transport.kafka.survey import TopicSurvey
from controller.transport.port import Marker, OutRecord
from streaming.from_config import plan_of
from streaming.plan import JobPlan
from streaming.topics import create_topics, wanted_topics

pytestmark = pytest.mark.kafka


class Bootstrapped(Protocol):
    bootstrap: str


class Job:
    """A configuration with names of its own on the broker, and commands for it."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.end = uuid4().hex[:8]
        self.servers = servers
        self.folder = folder

    def overrides(self) -> dict[str, Any]:
        return {
            "job.name": f"job-{self.end}",
            "job.checkpoint": str(self.folder / self.end),
            "transport.kind": "kafka",
            "transport.kafka.bootstrap_servers": self.servers,
            "topics.load_reports": f"reports-{self.end}",
            "topics.commands": f"commands-{self.end}",
            "topics.decision_log": f"decisions-{self.end}",
            "topics.dead_letters": f"dead-{self.end}",
            "clusters.local.channel": f"channel-{self.end}",
        }

    @property
    def plan(self) -> JobPlan:
        return plan_of(load_config(None, self.overrides()))

    def __call__(self, *arguments: str) -> Result:
        sets = [
            word for key, value in self.overrides().items() for word in ("-s", f"{key}={value}")
        ]
        return CliRunner().invoke(app, [*arguments, *sets])

    def make(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Creates one of the topics as somebody else might have."""
        topic = f"{name}-{self.end}"
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
        admin.close()
        return topic

    def value(self, topic: str, setting: str) -> str:
        with closing(TopicSurvey(self.plan.transport.kafka)) as survey:
            return survey.existing([topic])[topic].settings[setting].value


@pytest.fixture
def job(kafka_broker: Bootstrapped, tmp_path: Path) -> Job:
    return Job(kafka_broker.bootstrap, tmp_path)


def test_what_was_created_is_as_it_should_be(job: Job) -> None:
    missing = job("topics", "check")
    assert missing.exit_code == 1 and "7 errors and 0 warnings in 7 topics" in missing.stdout
    planned = job("topics", "create", "--dry-run")
    assert planned.stdout.count("would create") == 7
    assert job("topics", "check").exit_code == 1, "a dry run creates nothing"
    created = job("topics", "create")
    assert created.stdout.count("created") == 7 and "finding" not in created.stdout
    checked = job("topics", "check")
    assert (checked.exit_code, checked.stdout) == (0, "7 topics are as they should be\n")
    again = json.loads(job("topics", "create", "--json").stdout)
    assert {one["action"] for one in again["topics"]} == {"exists"} and again["findings"] == []


def test_the_job_makes_the_same_topics_as_the_command(job: Job, tmp_path: Path) -> None:
    other = Job(job.servers, tmp_path)
    assert job("topics", "create").exit_code == 0
    log = KafkaLog(other.plan.transport.kafka)
    log.acquire_lease(other.plan.name, "me", 1_000)  # makes the job's own two, before the others
    create_topics(other.plan, log)
    log.close()
    with closing(TopicSurvey(job.plan.transport.kafka)) as survey:
        for ours, theirs in zip(wanted_topics(job.plan), wanted_topics(other.plan), strict=True):
            found = survey.existing([ours.name, theirs.name])
            assert replace(found[ours.name], name="") == replace(found[theirs.name], name="")


def test_a_topic_with_the_clients_times_is_reported_refused_and_mended(job: Job) -> None:
    topic = job.make("reports", partitions=3)
    log = KafkaLog(job.plan.transport.kafka)
    log.append([OutRecord(topic, "k", b"kept")])
    with pytest.raises(TopicSettingsError) as refused:
        create_topics(job.plan, log)
    sentence = str(refused.value)
    assert sentence.startswith(f"topic {topic} of Kafka at {job.servers} has ")
    assert "message.timestamp.type = CreateTime (Kafka's default), not LogAppendTime: " in sentence
    assert "run bundlectl topics create --mend, or kafka-configs.sh" in sentence
    checked = job("topics", "check")
    assert checked.exit_code == 1
    assert f"error    {topic}: message.timestamp.type is CreateTime" in checked.stdout
    assert "--mend" in job("topics", "create").stdout
    assert job.value(topic, "message.timestamp.type") == "CreateTime", "nothing without --mend"
    mended = job("topics", "create", "--mend")
    assert mended.exit_code == 0
    assert "message.timestamp.type: CreateTime (Kafka's default) -> LogAppendTime" in mended.stdout
    assert job("topics", "check").exit_code == 0
    create_topics(job.plan, log)
    assert log.topics()[topic] == 3, "report topics keep their number of partitions"
    kept = [one.value for number in range(3) for one in log.read(topic, number, 0, 9)]
    log.close()
    assert kept == [b"kept"]


def test_what_is_kept_for_longer_stays_as_it_is(job: Job) -> None:
    topic = job.make("decisions", retention_ms="-1", cleanup_policy="delete")
    assert job("topics", "create", "--mend").exit_code == 0
    assert job.value(topic, "retention.ms") == "-1"
    assert job.value(topic, "message.timestamp.type") == "LogAppendTime"


def test_what_cannot_be_mended_safely_is_left_and_said(job: Job) -> None:
    topic = job.make("channel", partitions=2, cleanup_policy="compact,delete")
    mended = job("topics", "create", "--mend")
    assert mended.exit_code == 1
    assert "cleanup.policy: compact,delete (of the topic) -> compact" in mended.stdout
    assert f"error    {topic}: partitions is 2, should be 1" in mended.stdout
    log = KafkaLog(job.plan.transport.kafka)
    with pytest.raises(TopicSettingsError, match=rf"{topic} .* has partitions = 2, not 1: "):
        create_topics(job.plan, log)
    log.close()


def test_more_replicas_than_brokers_are_refused_before_anything_is_made(job: Job) -> None:
    refused = job("topics", "create", "--replication", "9")
    assert refused.exit_code == 1 and "--replication 9 needs as many brokers" in refused.stderr
    assert "7 errors" in job("topics", "check").stdout


def test_describe_shows_what_is_wanted_and_what_is_there(job: Job) -> None:
    job.make("channel")
    shown = json.loads(job("topics", "describe", "--json").stdout)
    rows = {one["topic"].removesuffix(f"-{job.end}"): one for one in shown["topics"]}
    channel, reports = rows["channel"], rows["reports"]
    assert channel["wanted"]["settings"]["cleanup.policy"] == "compact"
    assert channel["there"]["settings"]["cleanup.policy"] == {
        "value": "delete",
        "source": "Kafka's default",
    }
    assert reports["there"] is None and reports["kept"] == "every record for 1 day"
    text = job("topics", "describe").stdout
    assert "  partitions                 4 when created   missing" in text


def test_doctor_says_who_leads_and_what_was_published(job: Job) -> None:
    assert job("topics", "create").exit_code == 0
    log = KafkaLog(job.plan.transport.kafka)
    lease = log.acquire_lease(job.plan.name, "me", 60_000)
    log.publish([], Marker(job.plan.name, "some-query", 7, lease.epoch), lease)
    log.release_lease(lease)
    log.close()
    page = json.loads(job("doctor", "--json").stdout)
    checks = {one["name"]: (one["status"], one["text"]) for one in page["checks"]}
    assert page["is_good"] and checks["topics"] == ("good", "all 7 are as they should be")
    assert checks["lease"] == ("good", "free; me had it last (epoch 1)")
    assert checks["marker"][0] == "note" and "batch 7 of query some-query" in checks["marker"][1]
    assert checks["clock"][0] == "note"


def test_doctor_compares_clocks_by_the_lease_of_a_controller_that_lives(job: Job) -> None:
    assert job("topics", "create").exit_code == 0
    log = KafkaLog(job.plan.transport.kafka)
    lease = log.acquire_lease(job.plan.name, "me", 60_000)
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(0.3):
            log.renew_lease(lease)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        page = json.loads(job("doctor", "--json").stdout)
    finally:
        is_over.set()
        thread.join()
        log.close()
    checks = {one["name"]: (one["status"], one["text"]) for one in page["checks"]}
    assert checks["clock"] == ("good", "differs from the brokers' by less than a second")
    assert checks["lease"][1].startswith("held by me (epoch 1), for another ")


def test_doctor_fails_when_a_topic_would_do_harm(job: Job) -> None:
    job.make("commands", partitions=2)
    found = job("doctor")
    assert found.exit_code == 1 and "partitions is 2, not 1" in found.stdout
