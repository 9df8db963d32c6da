"""A development broker with `--secure`: TLS and a login for everybody, its controller included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.errors import MustelaError
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.daemon import broker_status
from mustela_dev.broker.probe import answers
from mustela_dev.broker.record import read_record
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentBroker]:
    broker = DevelopmentBroker(
        tmp_path_factory.mktemp("secure"),
        heap_mb=HEAP_MB,
        properties=PROPERTIES,
        options=BrokerOptions(fast_start=True, secure=True),
    )
    with broker:
        yield broker


def known(broker: DevelopmentBroker, **changes: str | None) -> dict[str, str]:
    """Return the properties of a client, some of them changed or left out."""
    named = {name.replace("_", "."): text for name, text in changes.items()}
    right = {name.removeprefix("kafka."): text for name, text in broker.client_settings.items()}
    return {name: text for name, text in (right | named).items() if text is not None}


def test_who_logs_in_may_write_in_transactions(secure: DevelopmentBroker) -> None:
    """The broker is a client of itself when it ends a transaction, and of its controller."""
    admin = KafkaAdmin(known(secure))
    admin.create([TopicSpec(name="secured", partitions=1)])
    sink = TransactionalSink(known(secure), "secured-1")
    sink.open()
    sink.begin()
    sink.produce_columns(["secured"], [b"key"], [b"value"])
    sink.flush()
    sink.commit()
    sink.close()
    admin.close()
    (row,) = tail(known(secure), "secured", TailOptions(limit=1))
    assert row.value == b"value"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sasl_password": "hunter2"}, "KAFKA_AUTHENTICATION"),
        ({"ssl_ca_location": None}, "KAFKA_AUTHENTICATION"),
        ({"security_protocol": "plaintext"}, "KAFKA_SECURITY_MISMATCH"),
        ({"security_protocol": "sasl_plaintext"}, "KAFKA_SECURITY_MISMATCH"),
    ],
    ids=["wrong password", "unknown authority", "no security", "no TLS"],
)
def test_nobody_else_is_let_in_and_each_is_told_why(
    secure: DevelopmentBroker, changes: dict[str, str | None], code: str
) -> None:
    admin = KafkaAdmin(known(secure, **changes), timeout=2.0)
    with pytest.raises(MustelaError) as caught:
        admin.cluster_id()
    admin.close()
    assert caught.value.code == code
    assert secure.client_settings["kafka.sasl.password"] not in str(caught.value)


def test_neither_port_answers_without_a_login(secure: DevelopmentBroker) -> None:
    """The controller's could do all that the broker's can."""
    record = read_record(secure.data_dir)
    assert record is not None
    assert record.secure
    assert broker_status(secure.data_dir).answering
    for port in (record.port, record.controller_port):
        assert not answers(port, record.cluster_id)
    listeners = (secure.data_dir / "server.properties").read_text()
    assert "PLAINTEXT" not in listeners


def test_commands_reach_it_with_the_variables_that_were_written(
    secure: DevelopmentBroker, tmp_path: Path
) -> None:
    """As `mustela broker status` says: set -a, read the file. Kafka's own tools, too."""
    file = broker_status(secure.data_dir).client_env
    typed = (
        f"set -a; . '{file}'; set +a; mustela=\"{sys.executable} -m mustela.cli.main\"\n"
        "$mustela topics list --json && $mustela kafka-topics --list"
    )
    environ = {name: text for name, text in os.environ.items() if not name.startswith("MUSTELA")}
    done = subprocess.run(
        ["bash", "-c", typed],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert isinstance(json.loads(first), list)
    assert rest is not None
    said = subprocess.run(
        [sys.executable, "-m", "mustela.cli.main", "broker", "status", "--data", secure.data_dir],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert f". {file}; set +a" in said.stderr
    assert secure.client_settings["kafka.sasl.password"] not in said.stdout + said.stderr
