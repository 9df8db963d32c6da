"""An image of a project, of real Debian packages: its root is entered, and a topology runs there.

`./dev image` runs it: it takes minutes where nothing is kept from before. It needs root, to enter
another root directory, and an apt that reaches Debian's packages; where one is missing it says so
and is skipped. Packages and layers are kept in the user's cache.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer

from mustela.cli.main import main
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.deploy.pods import USER
from mustela_dev import DevelopmentBroker
from tests.integration.image_root import Container, missing
from tests.integration.kafka_rows import plain_producer
from tests.patience import PATIENCE_S, looks
from tests.unit.deploy.image.world import unpack

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif("MUSTELA_IMAGE_TEST" not in os.environ, reason="./dev image runs it"),
]
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this release, with a lock of the packages that Debian has now."""
    if reason := missing():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("image") / "corner-shop"
    assert main(["new", str(directory)]) == 0
    lock = directory / "image.lock"
    if main(["image", "lock", "--output", str(lock)]):
        pytest.skip("apt does not know Debian's packages: apt-get update")
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if not any(one["name"] == python for one in json.loads(lock.read_text())["packages"]):
        pytest.skip(f"Debian's Python here is not {python}, for which this environment is")
    return directory


@pytest.fixture(scope="module")
def container(project: Path) -> Iterator[Container]:
    """The project's image, unpacked."""
    made = build(project, project.parent / "layout")
    root = project.parent / "root"
    yield Container(root, unpack(project.parent / "layout", root, owners=True), made)
    shutil.rmtree(root)


def build(project: Path, output: Path, **variables: str) -> dict[str, Any]:
    """Run the command as a user does."""
    options = ["--include", "tests/test_topology.py", "--output", str(output), "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "mustela.cli.main", "image", str(project), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=PATIENCE_S,
    )
    if ran.returncode == 3:
        pytest.skip(f"Debian's packages cannot be had: {ran.stderr.splitlines()[0]}")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_other_tools_read_it(project: Path, container: Container, tmp_path: Path) -> None:
    """skopeo, which podman and others share: the layout, and the tar in both of its forms."""
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")
    tar = tmp_path / "shop.tar"
    assert build(project, tar)["digest"] == container.made["digest"]
    layout = project.parent / "layout"
    for place in (f"oci:{layout}:0.1.0", f"oci-archive:{tar}", f"docker-archive:{tar}"):
        ran = subprocess.run(["skopeo", "inspect", place], capture_output=True, check=True)
        found = json.loads(ran.stdout)
        assert found["Labels"]["org.opencontainers.image.title"] == "corner-shop", place
        if not place.startswith("docker"):
            assert found["Digest"] == container.made["digest"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A volume, as Kubernetes gives one to the user of a pod."""
    directory = tmp_path / "volume"
    directory.mkdir()
    os.chown(directory, USER, USER)
    return directory


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_its_root_is_whole(container: Container, state: Path) -> None:
    """Its user is nobody in particular; Python, Java, certificates and the topology are there."""
    found = container.run(
        state, "mustela", "doctor", "--json", MUSTELA__BOOTSTRAP_SERVERS="[::1]:9"
    )
    checks = {one["name"]: one for one in json.loads(found.stdout)}
    assert checks["java"]["level"] == checks["state"]["level"] == "ok", found.stdout
    assert "/usr/lib/jvm/" in checks["java"]["found"]
    who = container.run(state, "bash", "-c", "id -u; id -un; touch /app/x /opt/x; touch /state/x")
    assert who.stdout.split() == [str(USER), "mustela"]
    assert who.stderr.count("Read-only file system") == 2
    trusts = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    python = int(container.run(state, "python", "-c", trusts).stdout)
    java = container.run(state, "keytool", "-list", "-cacerts", "-storepass", "changeit").stdout
    assert f"contains {python} entries" in java
    assert python > 100
    sharing = container.run(state, "java", "-Xshare:on", "-version")
    assert sharing.returncode == 0, sharing.stderr  # the archive that the package has still fits
    described = container.run(state, "mustela", "describe", "corner_shop.app:app")
    assert "Source: corner-shop-orders" in described.stdout, described.stderr


def test_the_projects_own_test_passes_in_it(container: Container, state: Path) -> None:
    """With crashes, in lanes, in other key groups: the test driver, without a broker."""
    program = "from tests import test_topology as t; t.test_results_do_not_depend_on_how_it_runs()"
    ran = container.run(state, "python", "-c", program)
    assert ran.returncode == 0, ran.stderr


def test_it_runs_a_topology_on_a_broker(
    container: Container, state: Path, broker: DevelopmentBroker, admin: KafkaAdmin, tmp_path: Path
) -> None:
    """Its entry point, from records to results, with a probe that answers; SIGTERM ends it."""
    admin.create([TopicSpec(name="corner-shop-orders", partitions=2)])
    producer = plain_producer({"bootstrap.servers": broker.bootstrap_servers})
    for amount in (3, 4, 5):
        row = json.dumps({"customer": "ann", "amount": amount})
        producer.produce("corner-shop-orders", row.encode(), b"1")
    producer.flush()
    probe = free_port()
    variables = {
        "MUSTELA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "MUSTELA__TOPICS__CREATE": "true",
        "MUSTELA__ADMIN__LISTEN": f"127.0.0.1:{free_port()}",
        "MUSTELA__ADMIN__PROBE_LISTEN": f"127.0.0.1:{probe}",
    }
    command = container.command(state, *container.config["config"]["Entrypoint"], **variables)
    log = tmp_path / "log"
    with log.open("wb") as file:
        running = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        for rows in looks(lambda: results(broker)):
            if rows or running.poll() is not None:
                break
        assert rows == [{"orders": 3, "total": 12}], log.read_text(encoding="utf-8")
        assert "200 OK" in asked(probe, "/health/ready")
        [inner] = psutil.Process(running.pid).children()
        assert set(inner.uids()) == {USER}
        inner.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0, log.read_text(encoding="utf-8")
    finally:
        running.kill()
        running.wait()
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [one["state"] for one in events if "state" in one][-1] == "stopped"


def results(broker: DevelopmentBroker) -> list[Any]:
    """Return the last total, once all orders are in it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "look",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["corner-shop-totals"])
        found = []
        while (message := consumer.poll(2)) is not None:
            if not message.error():
                found.append(json.loads(message.value() or b"null"))
        return [row for row in found if row["orders"] == 3]
    finally:
        consumer.close()


def asked(port: int, path: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        line.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        return line.recv(4096).decode()


def test_it_is_the_same_image_when_nothing_was_kept(
    project: Path, container: Container, tmp_path: Path
) -> None:
    """Made from the beginning, from a copy of the project elsewhere: the same digest."""
    shutil.copytree(project, tmp_path / "corner-shop")
    kept = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mustela/image/packages"
    )
    shutil.copytree(kept, tmp_path / "cache/mustela/image/packages")
    again = build(
        tmp_path / "corner-shop", tmp_path / "layout", XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    assert not any(layer["reused"] for layer in again["layers"])
    assert again["digest"] == container.made["digest"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", again["digest"])
