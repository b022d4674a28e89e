"""The adapter for Apache Kafka, by kafka-python; see `controller.transport.port`."""
