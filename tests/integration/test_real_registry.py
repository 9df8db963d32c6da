"""A real schema registry: Apicurio's, through its Confluent-compatible interface.

It is 140 MB, so it is not downloaded by the tests: unpack the archive ``all`` (tar.gz) of the Maven
artifact ``io.apicurio:apicurio-registry-app:2.6.13.Final`` and name its directory in
``MUSTELA_TEST_APICURIO``. It needs Java 17.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import EnvironmentFault
from mustela.java import find_java
from mustela.model import Windowed
from mustela.schemas import AvroSerde, JsonSchemaSerde, ProtobufSerde, SerdePlace
from mustela.serdes.schemas.faults import IncompatibleSchemaError
from mustela.serdes.windowed import WindowedSerde
from mustela_dev.broker.probe import free_port
from tests.patience import PATIENCE_S
from tests.unit.serdes.schemas.protobuf_files import message

DIRECTORY = os.environ.get("MUSTELA_TEST_APICURIO", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DIRECTORY, reason="MUSTELA_TEST_APICURIO names no registry"),
]


@dataclass
class Order:
    user: str
    amount: int


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry that refuses what older readers could not read."""
    port = free_port()
    (jar,) = Path(DIRECTORY).glob("apicurio-registry-app-*-runner.jar")
    log = tmp_path_factory.mktemp("registry") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(find_java().executable), "-Xmx256m", "-jar", str(jar)],
            env={**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                ask(f"{address}/config", {"compatibility": "BACKWARD"})
                break
            except urllib.error.URLError:
                told = log.read_text(errors="replace")
                assert process.poll() is None, told
                assert time.monotonic() < deadline, told
                time.sleep(0.2)
        yield address
    finally:
        process.kill()
        process.wait()


def ask(address: str, body: object) -> None:
    data = json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    request.method = "PUT"
    with urllib.request.urlopen(request, timeout=10):
        pass


def bound(serde: Any, url: str, topic: str, part: Any = "value") -> Any:
    return serde.bound(SerdePlace(topic, part), {"url": url})


def test_each_format_is_written_and_read_by_class_and_by_name(url: str) -> None:
    """A reader that knows only the registry finds the schema by the id in the bytes."""
    orders = [Order("ann", 3), None, Order("eve", 4)]
    for kind in (AvroSerde, JsonSchemaSerde):
        topic = f"orders-{kind.__name__}"
        serde = bound(kind(Order), url, topic)
        data = serde.serialize_many(orders)
        assert serde.deserialize_many(data) == orders
        loose = bound(kind(), url, topic).deserialize_many(data)
        assert loose == [{"user": "ann", "amount": 3}, None, {"user": "eve", "amount": 4}]
    cls = message("shop.Order")
    sent = cls(user="ann", total={"cents": 3})  # its schema refers to that of another file
    serde = bound(ProtobufSerde(cls), url, "orders-protobuf")
    assert serde.deserialize(serde.serialize(sent)) == sent
    assert (
        bound(ProtobufSerde(cls), url, "orders-protobuf").deserialize(serde.serialize(sent)) == sent
    )


def test_a_windowed_key_has_a_schema(url: str) -> None:
    """That of the key in it."""
    minute = timedelta(minutes=1)
    serde = bound(WindowedSerde(AvroSerde(str), window_size=minute), url, "windowed", "key")
    key = Windowed("ann", 0, 60_000)
    assert serde.deserialize(serde.serialize(key)) == key


def test_a_schema_that_old_readers_cannot_read_is_refused_with_both(url: str) -> None:
    """By the registry's own judgement; a field with a default is taken."""
    bound(AvroSerde(Order), url, "evolving").serialize(Order("ann", 3))
    wider = make_dataclass("Order", [("user", str), ("amount", int), ("extra", int)])
    wider.__module__ = Order.__module__
    wider.__qualname__ = "Order"
    with pytest.raises(IncompatibleSchemaError) as caught:
        bound(AvroSerde(wider), url, "evolving").serialize(wider("ann", 3, 4))
    assert "extra" in str(caught.value)
    later = make_dataclass("Order", [("user", str), ("amount", int), ("note", str | None, None)])
    later.__module__ = Order.__module__
    later.__qualname__ = "Order"
    data = bound(AvroSerde(later), url, "evolving").serialize(later("ann", 3, "n"))
    assert bound(AvroSerde(), url, "evolving").deserialize(data)["note"] == "n"


def test_a_registry_that_is_gone_is_a_fault_that_may_pass(url: str) -> None:
    """Not a bad record: a record whose schema nobody could look up is not lost."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    serde = AvroSerde(Order).bound(SerdePlace("x"), {"url": nowhere, "max.retries": "0"})
    with pytest.raises(EnvironmentFault) as caught:
        serde.serialize(Order("ann", 3))
    assert caught.value.retryable
    assert bound(AvroSerde(Order), url, "x").serialize(Order("ann", 3))
