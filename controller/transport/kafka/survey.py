"""Asks the brokers how topics are, creates them, and changes their settings.

One connection, for a short time. Called by `KafkaLog`, `streaming.topics`, `bundlectl topics` and
`bundlectl doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType

from controller.transport.errors import TransportError
from controller.transport.kafka.failures import as_transport_error, translated
from controller.transport.kafka.findings import ExistingTopic, Finding, Setting, all_findings
from controller.transport.kafka.security import client_options
from controller.transport.kafka.settings import KafkaSettings
from controller.transport.kafka.topics import TopicSpec

SOURCES = {"DYNAMIC_TOPIC_CONFIG": "of the topic", "DEFAULT_CONFIG": "Kafka's default"}
BROKERS_SOURCE = "the brokers' default"
TOPIC = ConfigResourceType.TOPIC.name.lower()


class TopicSurvey:
    """An open connection, to be closed. Raises `TransportError`s."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        with translated(settings):
            self._admin = KafkaAdminClient(**client_options(settings))

    def close(self) -> None:
        """Ends the connection."""
        self._admin.close()

    def brokers(self) -> int:
        """How many brokers the cluster has now."""
        found = self._ask("asking for the brokers", self._admin.describe_cluster)
        return len(found["brokers"])

    def existing(self, names: Iterable[str]) -> dict[str, ExistingTopic]:
        """Those of the topics that exist, with every setting that is in force."""
        wanted = sorted(set(names))

        def describe() -> dict[str, Any]:
            return {
                one["name"]: one for one in self._admin.describe_topics(wanted) if _is_there(one)
            }

        found = self._ask("describing topics", describe)
        if not found:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in sorted(found)]
        configs = self._ask(
            "reading settings of topics",
            lambda: self._admin.describe_configs(resources, config_filter="all"),
        ).get(TOPIC, {})
        return {name: _topic(found[name], configs.get(name, {})) for name in sorted(found)}

    def findings(self, specs: Sequence[TopicSpec]) -> list[Finding]:
        """What is wrong with the topics."""
        existing = self.existing(spec.name for spec in specs)
        return all_findings(specs, existing, self.brokers(), tool_servers(self._settings))

    def create(self, spec: TopicSpec) -> None:
        """Creates a topic; one that exists keeps its own settings, but must have its partitions."""
        wanted = {
            "num_partitions": spec.partitions,
            "replication_factor": self._settings.replication,
            "configs": dict(spec.settings),
        }
        try:
            self._admin.create_topics({spec.name: wanted}, wait_for_metadata=True)
        except kafka_errors.TopicAlreadyExistsError:
            count = self.existing([spec.name])[spec.name].partitions
            if count != spec.partitions:
                raise TransportError(
                    f"topic {spec.name} of Kafka at {self._settings.bootstrap_servers} has {count} "
                    f"partitions, not {spec.partitions}: the number cannot change while it is used"
                ) from None
        except kafka_errors.KafkaError as error:
            raise as_transport_error(error, self._settings, f"creating {spec.name}") from error

    def alter(self, topic: str, settings: Mapping[str, str]) -> None:
        """Sets these settings of a topic, and leaves the others as they are."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))
        doing = f"setting {', '.join(settings)} of {topic}"
        answer = self._ask(doing, lambda: self._admin.alter_configs([resource]))
        result = answer.get(TOPIC, {}).get(topic, "no answer")
        if result != "OK":
            raise TransportError(
                f"Kafka at {self._settings.bootstrap_servers} refused {doing} ({result}): look "
                "whether this user may alter the topic, and what the brokers' policies allow"
            )

    def _ask(self, doing: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except kafka_errors.KafkaError as error:
            raise as_transport_error(error, self._settings, doing) from error


def tool_servers(settings: KafkaSettings) -> str:
    """Options with which Kafka's own tools reach the cluster."""
    servers = f"--bootstrap-server {settings.bootstrap_servers}"
    is_plain = settings.security_protocol == "PLAINTEXT"
    return servers if is_plain else f"{servers} --command-config client.properties"


def _is_there(described: Mapping[str, Any]) -> bool:
    """Raises the client's error for what may not be seen."""
    code = described["error_code"]
    if code in (kafka_errors.NoError.errno, kafka_errors.LeaderNotAvailableError.errno):
        return True
    if code == kafka_errors.UnknownTopicOrPartitionError.errno:
        return False
    raise kafka_errors.for_code(code)(f"topic {described['name']}")


def _topic(described: Mapping[str, Any], configs: Mapping[str, Any]) -> ExistingTopic:
    partitions = described["partitions"]
    settings = {
        name: Setting(str(one["value"]), SOURCES.get(one["config_source"], BROKERS_SOURCE))
        for name, one in configs.items()
        if one["value"] is not None
    }
    replicas = min((len(one["replica_nodes"]) for one in partitions), default=0)
    return ExistingTopic(described["name"], len(partitions), replicas, settings)
