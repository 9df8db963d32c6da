"""Serdes with a registry in whole topologies, by the test driver with a registry in the process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mustela import App, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.errors import DataError
from mustela.plan.bound import bind_serdes
from mustela.planner.planner import plan
from mustela.schemas import AvroSerde, JsonSchemaSerde, ProtobufSerde, SerdePlace
from mustela.serdes.schemas.faults import RegistryUnreachableError
from mustela.serdes.schemas.mock import mock_transport
from tests.registry_server import RegistryServer
from tests.unit.serdes.schemas.protobuf_files import message


@dataclass(frozen=True)
class Order:
    user: str
    total: int


@dataclass(frozen=True)
class LaterOrder:
    user: str
    total: int
    currency: str = "EUR"


def _sums(value: Any, key: Any = str) -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=key, value=value)
    sums = orders.group_by_key().reduce(_added, store="sums")
    sums.to_stream().to("sums")
    return builder


def _added(one: Any, other: Any) -> Any:
    return type(one)(user=one.user, total=one.total + other.total)


def _subjects(scope: str) -> list[str]:
    return sorted(mock_transport(scope)._subjects)


@pytest.mark.parametrize("make", [AvroSerde, JsonSchemaSerde])
def test_a_dataclass_goes_in_through_a_store_and_out(make: Any) -> None:
    """Source, changelog and sink each have a subject, as they would in Kafka Streams."""
    scope = f"sums-{make.__name__}"
    settings = {"application_id": "app", "schema.registry.url": f"mock://{scope}"}
    with TopologyTestDriver(_sums(make(Order)), settings) as driver:
        orders = driver.create_input_topic("orders")
        orders.pipe_key_value_list([("ann", Order("ann", 3)), ("ann", Order("ann", 4))])
        assert driver.create_output_topic("sums").read_key_values_to_list() == [
            ("ann", Order("ann", 3)),
            ("ann", Order("ann", 7)),
        ]
        assert driver.get_key_value_store("sums")["ann"] == Order("ann", 7)
    assert _subjects(scope) == ["app-sums-changelog-value", "orders-value", "sums-value"]


def test_messages_of_protobuf_by_their_class() -> None:
    refund = message("shop.Refund")
    builder = StreamsBuilder()
    builder.stream("refunds", key=str, value=refund).filter(lambda _k, m: m.user != "").to("named")
    with TopologyTestDriver(builder, {"schema.registry.url": "mock://protobuf"}) as driver:
        driver.create_input_topic("refunds").pipe_input("k", refund(user="ann"))
        driver.create_input_topic("refunds").pipe_input("k", refund())
        assert driver.create_output_topic("named").read_key_values_to_list() == [
            ("k", refund(user="ann"))
        ]


@pytest.mark.parametrize("name", ["avro", "jsonschema", "protobuf"])
def test_by_name_records_are_read_and_written_with_the_schemas_of_the_registry(name: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key=str, value=name).to("copies", key=str, value=name)
    scope = f"mock://by-name-{name}"
    typed: Any = {
        "avro": (AvroSerde(Order), Order("ann", 3)),
        "jsonschema": (JsonSchemaSerde(Order), Order("ann", 3)),
        "protobuf": (ProtobufSerde(message("shop.Refund")), message("shop.Refund")(user="ann")),
    }[name]
    serde, value = typed
    # JSON has no schema of its own in its values: the one to write with has to be there.
    serde.bound(SerdePlace("copies"), {"url": scope}).serialize(value)
    with TopologyTestDriver(builder, {"schema.registry.url": scope}) as driver:
        driver.create_input_topic("orders", value=serde).pipe_input("k", value)
        copies = driver.create_output_topic("copies", value=serde)
        assert copies.read_key_values_to_list() == [("k", value)]


def test_keys_in_windows_and_generic_keys_are_regrouped() -> None:
    builder = StreamsBuilder()
    by_name: Any = "avro"
    orders = builder.stream("orders", key=by_name, value=AvroSerde(Order))
    by_user = orders.group_by(lambda _k, order: order.user, key=AvroSerde(str))
    windows = TimeWindows(size=timedelta(seconds=10), grace=timedelta(0))
    counts = by_user.windowed_by(windows).count(store="counts")
    counts.to_stream().to("counts", value=int)
    settings = {"application_id": "app", "schema.registry.url": "mock://windows-in-topology"}
    for crashes in (False, True):
        with TopologyTestDriver(
            builder, settings, key_groups=8, crash_after_every_record=crashes
        ) as driver:
            given = driver.create_input_topic("orders")
            given.pipe_input("1", Order("ann", 3), timestamp=1_000)
            given.pipe_input("2", Order("ann", 3), timestamp=2_000)
            found = driver.create_output_topic("counts").read_key_values_to_list()
            assert [(k.key, k.start, count) for k, count in found] == [
                ("ann", 0, 1),
                ("ann", 0, 2),
            ]
    assert "counts-key" in _subjects("windows-in-topology")


def test_a_row_of_an_older_class_is_read_as_the_class_is_now() -> None:
    """A field with a default came: rows that were kept before have it."""
    registry = {"url": "mock://evolving"}
    place = SerdePlace("app-sums-changelog", internal=True)
    old = AvroSerde(Order).bound(place, registry)
    schema = {**AvroSerde(LaterOrder)._json, "name": "Order"}
    new = AvroSerde(LaterOrder, schema=schema).bound(place, registry)
    row = old.serialize(Order("ann", 3))
    assert new.deserialize(row) == LaterOrder("ann", 3, "EUR")


@pytest.mark.parametrize("bad", [b"{}", b"\0\0\0\x30\x39\x06ann\x06", b"\0\0\0\0\x01\x06an", b""])
def test_a_record_that_cannot_be_read_goes_to_the_dead_letters(bad: bytes) -> None:
    """Wrong magic byte, unknown id, cut off, empty: each is one bad record among good ones."""
    settings = {
        "schema.registry.url": "mock://letters",
        "deserialization_handler": "dead_letter",
        "application_id": "app",
    }
    with TopologyTestDriver(_sums(AvroSerde(Order)), settings) as driver:
        good = driver.create_input_topic("orders")
        good.pipe_input("ann", Order("ann", 3))
        driver.create_input_topic("orders", value=bytes).pipe_input("ann", bad)
        good.pipe_input("ann", Order("ann", 4))
        assert driver.get_key_value_store("sums")["ann"] == Order("ann", 7)
        (letter,) = driver.create_output_topic("app-dead-letters").read_records_to_list()
        assert letter.value == bad
        told: dict[str, Any] = dict(letter.headers)
        assert told["mustela.error.topic"] == b"orders"
        assert told["mustela.error.offset"] == b"1"
        assert b"SerdeError" in told["mustela.error.class"]


def test_where_the_handler_is_fail_the_error_names_the_record() -> None:
    settings = {"schema.registry.url": "mock://fails"}
    with TopologyTestDriver(_sums(AvroSerde(Order)), settings) as driver:
        given = driver.create_input_topic("orders", value=bytes)
        with pytest.raises(DataError, match="no schema with id 12345") as caught:
            given.pipe_input("ann", b"\0\0\0\x30\x39\x06ann\x06")
        assert caught.value.fields["topic"] == "orders"
        assert caught.value.fields["offset"] == 0


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_registry_that_does_not_answer_is_never_a_dead_letter(handler: str) -> None:
    """Whatever the handlers say: the fault reaches the application, which tries again."""
    settings = {
        "deserialization_handler": handler,
        "production_handler": handler,
        "schema_registry.max.retries": 0,
    }
    data = b"\0\0\0\0\x01\x06ann\x06"
    with RegistryServer() as gone:
        pass
    url = {"schema.registry.url": gone.url}
    builder = StreamsBuilder()
    builder.stream("orders", key=str, value=AvroSerde(Order)).to("copies")
    builder.stream("texts", key=str, value=str).to("avro", value=AvroSerde(str))
    for topic, value in (("orders", data), ("texts", b"v")):
        with TopologyTestDriver(builder, {**settings, **url}) as driver:
            given = driver.create_input_topic(topic, value=bytes)
            with pytest.raises(RegistryUnreachableError):
                given.pipe_input("ann", value)


def test_serdes_without_a_registry_leave_the_plan_as_it_is() -> None:
    """Who has no registry pays nothing for it, and has the very same plan."""
    made = plan(_sums(Order).build())
    assert bind_serdes(made, "app", {"url": "mock://none"}) is made


def test_the_fingerprint_does_not_depend_on_the_registry() -> None:
    def built(url: str) -> Any:
        app = App("app", {"schema.registry.url": url, "naming.strict": False})
        app.topology(lambda builder: _sums_in(builder))
        return app.built_plan()

    one, other = built("mock://a"), built("mock://b")
    assert one.fingerprint == other.fingerprint
    assert one.meanings == other.meanings
    assert one.stores["sums"][1].value_serde.place == SerdePlace(
        "app-sums-changelog", internal=True
    )


def _sums_in(builder: StreamsBuilder) -> None:
    orders = builder.stream("orders", key=str, value=AvroSerde(Order))
    orders.group_by_key().reduce(_added, store="sums").to_stream().to("sums")
