"""A broker that asks who is there: a wrong answer is told by the handshake's reason."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import AuthenticationRefused, PermissionRefused
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.errors import MustelaError
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.probe import LOOPBACK, free_port
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

USERS = {"admin": "root", "joe": "hunter2"}
JOE = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "joe",
    "sasl.password": "hunter2",
}


class Secured:
    """A broker with a listener for itself, and one where users log in; `joe` may do little."""

    def __init__(self, port: int, broker: DevelopmentBroker) -> None:
        self.servers = f"{LOOPBACK}:{port}"
        self.open_servers = broker.bootstrap_servers

    def admin(self, **changes: str) -> KafkaAdmin:
        """Return a client; one that is refused says so when its time is up."""
        named = {name.replace("_", "."): value for name, value in changes.items()}
        patience_s = 5.0 if changes else PATIENCE_S
        return KafkaAdmin({"bootstrap.servers": self.servers, **JOE, **named}, timeout=patience_s)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    port, own, controller = free_port(), free_port(), free_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
        f'user_{name}="{password}"' for name, password in USERS.items()
    )
    properties = {
        **PROPERTIES,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{own},USERS://{LOOPBACK}:{port},"
        f"CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{own},USERS://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f"{login};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    broker = DevelopmentBroker(
        tmp_path_factory.mktemp("secured"),
        port=own,
        heap_mb=HEAP_MB,
        properties=properties,
        options=BrokerOptions(fast_start=True),
    )
    with broker:
        yield Secured(port, broker)


def typed(*command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Type a command of Mustela's."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MUSTELA")}
    return subprocess.run(
        [sys.executable, "-m", "mustela.cli.main", *command],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def refused(admin: KafkaAdmin) -> MustelaError:
    with pytest.raises(MustelaError) as caught:
        admin.cluster_id()
    admin.close()
    return caught.value


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("sasl.password", "hunter3", "Invalid username or password"),
        ("sasl.username", "jo", "Invalid username or password"),
        ("sasl.mechanism", "SCRAM-SHA-256", "mechanism"),
    ],
)
def test_a_wrong_login_is_told_by_the_reason_and_its_setting_helps(
    secured: Secured, setting: str, value: str, said: str
) -> None:
    """AuthenticationRefused, and not that no broker answers; the fix names the setting."""
    error = refused(secured.admin(**{setting: value}))
    assert type(error) is AuthenticationRefused
    assert said in error.evidence["kafka"]
    assert "no Kafka broker answers" not in str(error)
    assert "hunter" not in str(error)
    assert f"kafka.{setting}" in (error.fix or "")
    right = secured.admin()
    assert right.cluster_id()
    right.close()


def test_a_client_without_a_login_is_told_of_the_protocols(secured: Secured) -> None:
    """The listener ends what does not log in; with the protocol that it has, it answers."""
    error = refused(secured.admin(security_protocol="plaintext"))
    assert error.code == "KAFKA_SECURITY_MISMATCH"
    assert "sasl_plaintext" in (error.fix or "")
    assert refused(secured.admin(security_protocol="sasl_ssl")).code in {
        "KAFKA_SECURITY_MISMATCH",
        "KAFKA_AUTHENTICATION",
    }


def test_a_transactional_producer_says_the_same(secured: Secured) -> None:
    """It is what an application has open while it runs."""
    wrong: dict[str, Any] = {"bootstrap.servers": secured.servers, **JOE, "sasl.password": "x"}
    sink = TransactionalSink(wrong, "joe-1", options=TransactionOptions(open_timeout=60))
    with pytest.raises(AuthenticationRefused):
        sink.open()
    sink.close()


def test_what_a_user_may_not_do_he_may_after_the_line_of_the_error(
    secured: Secured, tmp_path: Path
) -> None:
    """PermissionRefused names kafka-acls, which `mustela` has, also where users log in."""
    owner = KafkaAdmin({"bootstrap.servers": secured.open_servers})
    owner.create([TopicSpec(name="joes", partitions=1)])
    admin = secured.admin()
    with pytest.raises(PermissionRefused) as caught:
        admin.create([TopicSpec(name="joes-own", partitions=1)])
    assert "with kafka-acls" in (caught.value.fix or "")
    allow = ("--add", "--allow-principal", "User:joe", "--operation", "All")
    names = ("--topic", "joes", "--resource-pattern-type", "prefixed")
    server = ("--bootstrap-server", secured.open_servers)
    done = typed("kafka-acls", *server, *allow, *names, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    admin.create([TopicSpec(name="joes-own", partitions=1)])
    assert "joes-own" in admin.topics()
    admin.close()
    owner.close()


def test_kafkas_tools_log_in_with_the_settings_of_the_application(
    secured: Secured, tmp_path: Path
) -> None:
    """From the settings file of the directory; a wrong password is told by the tool's own words."""
    settings = tmp_path / "mustela.yaml"

    def ask(**changes: str) -> subprocess.CompletedProcess[str]:
        kafka = {**JOE, **{name.replace("_", "."): value for name, value in changes.items()}}
        lines = [f"bootstrap_servers: {secured.servers}", "kafka:"]
        settings.write_text("\n".join([*lines, *(f"  {k}: {v}" for k, v in kafka.items())]))
        return typed("kafka-topics", "--list", directory=tmp_path)

    right = ask()
    assert right.returncode == 0, right.stderr
    wrong = ask(sasl_password="hunter3")
    assert wrong.returncode != 0
    assert "Authentication failed" in wrong.stdout + wrong.stderr
    assert "hunter3" not in wrong.stdout + wrong.stderr
