"""The development broker: started, stopped, killed, paused, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from controller.devkafka import Broker, BrokerError
from controller.devkafka import broker as broker_module
from controller.devkafka.properties import Ports, escaped, properties_text
from controller.processes import is_alive

ROOT = Path(__file__).parents[2]
WAIT_S = 30.0

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One of its own: these tests are rough with it."""
    with Broker(tmp_path / "broker") as one:
        yield one


def until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for value in values:
        producer.send(topic, value).get(20)
    producer.close()


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found: list[bytes] = []
    until(
        lambda: (
            found.extend(
                record.value for records in consumer.poll(500).values() for record in records
            )
            or len(found) >= count
        )
    )
    consumer.close()
    return found


def create(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.close()


def test_data_survive_a_kill_a_stop_and_a_restart(broker: Broker) -> None:
    first = broker.bootstrap
    create(first, "t")
    write(first, "t", [b"before"])
    broker.kill()
    assert not broker.is_running
    assert broker.restart().bootstrap == first
    write(first, "t", [b"between"])
    broker.stop()
    broker.start()
    assert broker.bootstrap == first
    assert read(first, "t", 2) == [b"before", b"between"]


def test_a_paused_broker_answers_nobody_and_goes_on(broker: Broker) -> None:
    create(broker.bootstrap, "t")
    broker.pause()
    port = int(broker.bootstrap.partition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as connection:  # by the kernel alone
        connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")  # which versions? nobody asks
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        broker.resume()
        connection.settimeout(WAIT_S)
        assert connection.recv(1)
    write(broker.bootstrap, "t", [b"v"])


def test_it_leaves_neither_process_nor_folder() -> None:
    with Broker() as broker:
        pid, directory = broker.pid, broker.directory
        assert pid is not None and is_alive(pid)
        assert "Kafka Server started" in broker.log_path.read_text()
        broker.pause()  # even so
    assert not is_alive(pid)
    assert not directory.exists()
    with pytest.raises(BrokerError, match="does not run"):
        broker.pause()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels tie no process to its parent")
def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from controller.devkafka import Broker\n"
        "print(Broker(Path(sys.argv[1])).start().pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "broker")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not is_alive(pid))


def test_another_port_is_tried_when_one_is_taken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = broker_module._free_ports(None)
        answers = iter([Ports(port, free.controller_port, free.port2), free])
        monkeypatch.setattr(broker_module, "_free_ports", lambda _: next(answers))
        with Broker(tmp_path) as broker:
            assert broker.bootstrap == f"127.0.0.1:{free.port}"


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path, extra={"log.segment.bytes": "some"})
    with pytest.raises(BrokerError, match=r"log\.segment\.bytes"):
        broker.start()
    assert not broker.is_running


def test_properties_of_the_caller_win_and_are_filled_in() -> None:
    extra = {
        "listeners": "SASL_SSL://127.0.0.1:{port}",
        "a": "x\ny\\z {other}",
        "num.partitions": "3",
    }
    text = properties_text(extra, Ports(1, 2, 3), Path("/d"))
    lines = text.splitlines()
    assert "listeners=SASL_SSL://127.0.0.1:1" in lines
    assert r"a=x\ny\\z {other}" in lines
    assert "num.partitions=3" in lines
    assert "controller.quorum.voters=1@127.0.0.1:2" in lines
    assert "log.dirs=/d/data" in lines
    assert escaped(" é") == "\\ \\u00e9"


def test_the_command_runs_one_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "controller.cli.main", "dev-kafka", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--directory", str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        bootstrap = first.partition(" runs at ")[2].split()[0]
        create(bootstrap, "t")
        os.kill(process.pid, signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(WAIT_S) == 0
        assert f'bootstrap_servers = "{bootstrap}"' in rest
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "data").is_dir(), "with a folder of its own the data stay"


def test_the_command_says_that_a_port_is_taken(kafka_broker: Broker) -> None:
    port = kafka_broker.bootstrap.partition(":")[2]
    command = [sys.executable, "-m", "controller.cli.main", "dev-kafka", "--port", port]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 cannot be used" in done.stderr
