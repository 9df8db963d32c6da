"""The development broker with a real Kafka."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mustela_dev.broker.daemon import broker_status, start_broker, stop_broker
from mustela_dev.broker.jars import JarRequest, jars_cache, resolve_jars
from mustela_dev.broker.probe import answers
from mustela_dev.broker.process import (
    BrokerAlreadyRunningError,
    BrokerDidNotStartError,
    BrokerOptions,
    DevelopmentBroker,
)
from mustela_dev.broker.tools import run_tool

pytest_plugins = ["tests.broker_fixture"]
pytestmark = pytest.mark.broker

CALL_TIMEOUT_S = 120
EXAMPLE = Path(__file__).parents[2] / "examples" / "e25_real_broker.py"


def test_the_example_of_the_class_runs() -> None:
    """As its documentation shows it."""
    shown = cleandoc(DevelopmentBroker.__doc__ or "").partition("::\n")[2]
    exec(dedent(shown), {})


@pytest.mark.spark
@pytest.mark.slow
def test_the_example_of_a_test_with_a_broker_passes(tmp_path: Path) -> None:
    """Run by pytest as users run it, far from this repository's own fixtures."""
    shutil.copy(EXAMPLE, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def create_topic(broker: DevelopmentBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 1)]).values():
        future.result(CALL_TIMEOUT_S)


def send(broker: DevelopmentBroker, topic: str, values: list[str]) -> None:
    """Write all values in one transaction."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"test-{topic}"}
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value.encode(), timestamp=1)
    producer.commit_transaction(CALL_TIMEOUT_S)


def read(broker: DevelopmentBroker, topic: str) -> list[str]:
    """Read everything that is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "test",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    try:
        while True:
            message = consumer.poll(CALL_TIMEOUT_S)
            assert message is not None, "the broker does not answer"
            if message.error() is not None:
                return values
            value = message.value()
            assert value is not None
            values.append(value.decode())
    finally:
        consumer.close()


def listening(pid: int) -> set[str]:
    """The addresses that a process and its children listen on."""
    process = psutil.Process(pid)
    sockets = [
        socket
        for each in [process, *process.children(recursive=True)]
        for socket in each.net_connections(kind="inet")
    ]
    bound = [socket for socket in sockets if socket.status in (psutil.CONN_LISTEN, "NONE")]
    return {socket.laddr.ip for socket in bound if socket.laddr}


def test_a_transaction_commits_as_soon_as_it_is_up(broker: DevelopmentBroker) -> None:
    """start() returned: topics, transactions and old timestamps all work at once."""
    create_topic(broker, "at-once")
    send(broker, "at-once", ["a", "b"])
    assert read(broker, "at-once") == ["a", "b"]


def test_it_listens_on_loopback_only(broker: DevelopmentBroker) -> None:
    """Nobody on the network reaches it: it has no passwords."""
    assert listening(broker.pid) == {"127.0.0.1"}


def test_a_topic_is_not_made_by_being_named(broker: DevelopmentBroker) -> None:
    """A misspelt name shows."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.list_topics("never-created", timeout=CALL_TIMEOUT_S)
    assert "never-created" not in admin.list_topics(timeout=CALL_TIMEOUT_S).topics


def test_transactions_are_of_the_second_version(broker: DevelopmentBroker) -> None:
    """Kafka 4 defends transactions against late requests of an older instance."""
    told = run_tool("kafka-features", ["--bootstrap-server", broker.bootstrap_servers, "describe"])
    (line,) = [line for line in told.splitlines() if "transaction.version" in line]
    assert "FinalizedVersionLevel: 2" in line


def test_lag_is_shown_by_kafkas_own_tool(broker: DevelopmentBroker) -> None:
    """The tools come from jars of the same release."""
    create_topic(broker, "lagging")
    send(broker, "lagging", ["a", "b", "c"])
    where = ["--bootstrap-server", broker.bootstrap_servers]
    reset = ["--group", "slow", "--topic", "lagging", "--reset-offsets", "--to-offset", "1"]
    run_tool("kafka-consumer-groups", [*where, *reset, "--execute"])
    told = run_tool("kafka-consumer-groups", [*where, "--describe", "--group", "slow"])
    (row,) = [line.split() for line in told.splitlines() if "lagging" in line]
    # Three records and the mark that ends their transaction.
    assert row[:6] == ["slow", "lagging", "0", "1", "4", "3"]


@pytest.mark.crash
def test_what_was_committed_survives_stop_and_kill(fresh_broker: DevelopmentBroker) -> None:
    """The address stays the same too."""
    address = fresh_broker.bootstrap_servers
    create_topic(fresh_broker, "kept")
    send(fresh_broker, "kept", ["a"])
    fresh_broker.kill()
    assert not fresh_broker.running
    fresh_broker.start()
    send(fresh_broker, "kept", ["b"])
    assert fresh_broker.stop(), "it had to be killed"
    fresh_broker.start()
    assert fresh_broker.bootstrap_servers == address
    assert read(fresh_broker, "kept") == ["a", "b"]


def awkward_home(tmp_path: Path) -> Mapping[str, str]:
    """An environment as in a bare container: LANG=C, blanks and other letters in HOME."""
    home = tmp_path / "my home, größer"
    cache = home / ".cache" / "mustela"
    cache.mkdir(parents=True)
    # The jars of the machine's cache: downloading them again would prove nothing here.
    resolve_jars("kafka")
    (cache / "jars").symlink_to(jars_cache(), target_is_directory=True)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "JAVA_HOME"}}
    return {**kept, "HOME": str(home), "LANG": "C", "LC_ALL": "C"}


def test_it_runs_from_a_home_with_blanks_and_other_letters(tmp_path: Path) -> None:
    """As a daemon, by the calls that the command line makes."""
    environment = awkward_home(tmp_path)
    place = Path(environment["HOME"]) / "data"
    options = BrokerOptions(fast_start=True, jars=JarRequest(environment=environment))
    try:
        status = start_broker(place, options=options)
        assert status.running
        assert status.answering
        assert status.pid is not None
        assert listening(status.pid) == {"127.0.0.1"}
        assert start_broker(place, options=options) == status
        assert stop_broker(place)
        assert not psutil.pid_exists(status.pid) or not broker_status(place).running
    finally:
        stop_broker(place)


def test_a_property_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    """Kafka's own words are in the error."""
    wrong = DevelopmentBroker(tmp_path / "broker", properties={"num.io.threads": "none"})
    with pytest.raises(BrokerDidNotStartError) as caught:
        wrong.start()
    assert "num.io.threads" in str(caught.value)


def test_a_second_kafka_on_the_same_data_is_told(
    fresh_broker: DevelopmentBroker, small_broker: Callable[[Path], DevelopmentBroker]
) -> None:
    """Also when the record of the first is lost: Kafka locks its data."""
    (fresh_broker.data_dir / "broker.json").unlink()
    second = small_broker(fresh_broker.data_dir)
    with pytest.raises(BrokerAlreadyRunningError, match="its record there is lost"):
        second.start()
    assert answers(fresh_broker.port, fresh_broker.cluster_id)


def test_scratch_files_stay_in_the_data_directory(fresh_broker: DevelopmentBroker) -> None:
    """Native libraries of compression are unpacked there, so that a kill litters nothing else."""
    create_topic(fresh_broker, "squeezed")
    producer = Producer(
        {"bootstrap.servers": fresh_broker.bootstrap_servers, "compression.type": "zstd"}
    )
    producer.produce("squeezed", value=b"x" * 10_000)
    assert producer.flush(CALL_TIMEOUT_S) == 0
    mapped = [entry.path for entry in psutil.Process(fresh_broker.pid).memory_maps()]
    (library,) = {path for path in mapped if "libzstd" in path}
    assert library.startswith(str(fresh_broker.data_dir))
