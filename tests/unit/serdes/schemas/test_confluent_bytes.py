"""The bytes are those of confluent-kafka's own serializers, and each side reads the other's.

Both talk to one registry over HTTP, so that schemas have the same ids on both sides.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mustela.serdes.base import Serde, SerdePlace
from mustela.serdes.schemas.avro import AvroRecord, AvroSerde
from mustela.serdes.schemas.client import Reference
from mustela.serdes.schemas.jsonschema import JsonSchemaSerde
from mustela.serdes.schemas.protobuf import ProtobufSerde
from tests.registry_server import RegistryServer
from tests.unit.serdes.schemas.protobuf_files import message


def theirs_of(make: Any, *arguments: Any, **named: Any) -> Any:
    """Make one of confluent-kafka's serializers, whose types do not say how it is called."""
    return make(*arguments, **named)


TOPIC = "orders"
VALUE = SerializationContext(TOPIC, MessageField.VALUE)
KEY = SerializationContext(TOPIC, MessageField.KEY)

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {
            "name": "total",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}
VALUES: list[dict[str, Any]] = [
    {
        "user": user,
        "total": Decimal("12.34"),
        "at": datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "note": note,
        "tags": ["x", "y"][: len(user)],
        "counts": {"a": 1},
        "kind": "B",
    }
    for user, note in (("ann", None), ("", "ü"), ("b" * 300, "n"))
]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def client(server: RegistryServer) -> Iterator[Any]:
    with SchemaRegistryClient({"url": server.url}) as client:
        yield client


def _bound(serde: Serde[Any], server: RegistryServer, part: Any = "value", **more: str) -> Any:
    properties = {name.replace("_", "."): value for name, value in more.items()}
    return serde.bound(SerdePlace(TOPIC, part), {"url": server.url, **properties})


def test_avro_records_are_confluents_bytes(server: RegistryServer, client: Any) -> None:
    """Logical types, unions, arrays, maps and enums, with one schema registered by both."""
    theirs = theirs_of(AvroSerializer, client, json.dumps(ORDER))
    ours = _bound(AvroSerde(schema=json.dumps(ORDER)), server)
    data = [theirs(value, VALUE) for value in VALUES]
    assert ours.serialize_many(VALUES) == data
    assert ours.deserialize_many(data) == VALUES
    read = theirs_of(AvroDeserializer, client)
    assert [read(one, VALUE) for one in ours.serialize_many(VALUES)] == VALUES
    by_name = _bound(AvroSerde(), server)
    assert by_name.deserialize_many(data) == VALUES
    assert by_name.serialize_many(by_name.deserialize_many(data)) == data


def test_avro_keys_are_confluents_bytes(server: RegistryServer, client: Any) -> None:
    theirs = theirs_of(AvroSerializer, client, '"string"')
    ours = _bound(AvroSerde(str), server, "key")
    assert ours.serialize("ann") == theirs("ann", KEY)
    assert _bound(AvroSerde(), server, "key").serialize("ann") == theirs("ann", KEY)
    assert ("POST", "/subjects/orders-key/versions?normalize=False") in server.asked or (
        "POST",
        "/subjects/orders-key/versions",
    ) in server.asked


def test_avro_references_are_confluents(server: RegistryServer, client: Any) -> None:
    """A record that another subject has, of which this one's schema says only the name."""
    money, order = (
        json.dumps({"type": "record", "namespace": "shop", "name": name, "fields": [field]})
        for name, field in (
            ("Money", {"name": "cents", "type": "long"}),
            ("Order", {"name": "total", "type": "shop.Money"}),
        )
    )
    client.register_schema("money", Schema(money, "AVRO"))
    referring = Schema(order, "AVRO", [SchemaReference("shop.Money", "money", 1)])
    theirs = theirs_of(AvroSerializer, client, referring)
    value = {"total": {"cents": 7}}
    data = theirs(value, VALUE)
    # The registry has the text as each side wrote it: theirs is taken as it is.
    text = server.registry.ask("GET", "/subjects/orders-value/versions/latest").told_of["schema"]
    ours = _bound(AvroSerde(schema=text, references=[Reference("shop.Money", "money", 1)]), server)
    assert ours.deserialize(data) == value
    assert _bound(AvroSerde(), server).deserialize(data) == value
    assert ours.serialize(value)[5:] == data[5:]
    assert theirs_of(AvroDeserializer, client)(ours.serialize(value), VALUE) == value


@dataclasses.dataclass(frozen=True)
class Item:
    user: str
    total: int
    note: str | None = None


def test_a_dataclass_is_read_by_confluents_deserializer(
    server: RegistryServer, client: Any
) -> None:
    ours = _bound(AvroSerde(Item, namespace="shop"), server)
    data = ours.serialize(Item("ann", 3))
    assert theirs_of(AvroDeserializer, client)(data, VALUE) == {
        "user": "ann",
        "total": 3,
        "note": None,
    }
    theirs = theirs_of(AvroSerializer, client, json.dumps(ours._json))
    assert theirs({"user": "ann", "total": 3}, VALUE) == data


def test_the_latest_version_is_written_with_as_confluent_does(
    server: RegistryServer, client: Any
) -> None:
    """use.latest.version takes what the subject has last, whatever the program declares."""
    older = {"type": "record", "name": "Item", "fields": [{"name": "user", "type": "string"}]}
    newer = {
        **older,
        "fields": [*older["fields"], {"name": "total", "type": "double", "default": 0}],  # type: ignore[misc]
    }
    for schema in (older, newer):
        client.register_schema("orders-value", Schema(json.dumps(schema), "AVRO"))
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    theirs = theirs_of(AvroSerializer, client, json.dumps(older), conf=conf)
    ours = _bound(
        AvroSerde(schema=older), server, auto_register_schemas="false", use_latest_version="true"
    )
    value = {"user": "ann", "total": 1.5}
    assert ours.serialize(value) == theirs(value, VALUE)


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("shop.Order", b"\0"),
        ("shop.Refund", b"\x02\x02"),
        ("shop.Order.Note", b"\x04\0\0"),
        ("shop.Order.Line", b"\x04\0\x02"),
        ("shop.Order.Line.Deep", b"\x06\0\x02\0"),
    ],
)
def test_protobuf_messages_are_confluents_bytes(
    server: RegistryServer, client: Any, name: str, indexes: bytes
) -> None:
    """The path to a nested message stands in the bytes; what a file uses is a reference."""
    cls = message(name)
    value = cls()
    if name == "shop.Order":
        value.user, value.total.cents, value.at.seconds = "ann", 7, 9
        value.lines.add(item="apple")
    elif name == "shop.Order.Line.Deep":
        value.n = 300
    else:
        setattr(
            value, {"shop.Order.Note": "text", "shop.Order.Line": "item"}.get(name, "user"), "x"
        )
    theirs = theirs_of(ProtobufSerializer, cls, client)
    data = theirs(value, VALUE)
    ours = _bound(ProtobufSerde(cls), server)
    assert ours.serialize(value) == data
    assert data[5 : 5 + len(indexes)] == indexes
    assert ours.deserialize(data) == value
    assert theirs_of(ProtobufDeserializer, cls)(ours.serialize(value), VALUE) == value
    by_name = _bound(ProtobufSerde(), server).deserialize(data)
    assert by_name.DESCRIPTOR.full_name == name
    assert by_name.SerializeToString() == value.SerializeToString()


def test_protobuf_references_are_registered_under_the_names_of_files(
    server: RegistryServer, client: Any
) -> None:
    _bound(ProtobufSerde(message("shop.Order")), server).serialize(message("shop.Order")(user="a"))
    latest = server.registry.ask("GET", "/subjects/orders-value/versions/latest").told_of
    assert latest["references"] == [
        {"name": "shop/money.proto", "subject": "shop/money.proto", "version": 1}
    ]
    assert client.get_latest_version("shop/money.proto").schema.schema_type == "PROTOBUF"


def test_json_is_read_by_each_side(server: RegistryServer, client: Any) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Item",
        "type": "object",
        "properties": {"user": {"type": "string"}, "total": {"type": "integer"}},
        "required": ["user"],
    }
    text = json.dumps(schema)
    value = {"user": "ann", "total": 3}
    data = theirs_of(JSONSerializer, text, client)(value, VALUE)
    ours = _bound(JsonSchemaSerde(schema=text), server)
    assert ours.serialize(value)[:5] == data[:5]
    assert ours.deserialize(data) == value
    assert _bound(JsonSchemaSerde(), server).deserialize(data) == value
    assert (
        theirs_of(JSONDeserializer, text, schema_registry_client=client)(
            ours.serialize(value), VALUE
        )
        == value
    )


def test_a_dataclass_as_json_is_read_by_confluents_deserializer(
    server: RegistryServer, client: Any
) -> None:
    data = _bound(JsonSchemaSerde(Item), server).serialize(Item("ann", 3))
    read = theirs_of(JSONDeserializer, None, schema_registry_client=client)
    assert read(data, VALUE) == {"user": "ann", "total": 3, "note": None}


def test_json_references_are_resolved_in_the_registry(server: RegistryServer, client: Any) -> None:
    client.register_schema("money", Schema('{"type":"integer","minimum":0}', "JSON"))
    text = '{"type":"object","properties":{"total":{"$ref":"money.json"}}}'
    ours = _bound(
        JsonSchemaSerde(schema=text, references=[Reference("money.json", "money", 1)]), server
    )
    theirs = theirs_of(
        JSONSerializer, Schema(text, "JSON", [SchemaReference("money.json", "money", 1)]), client
    )
    assert ours.deserialize(theirs({"total": 3}, VALUE)) == {"total": 3}
    with pytest.raises(Exception, match="total breaks the rule 'minimum'"):
        ours.serialize({"total": -1})


def test_what_avro_gives_keeps_its_schema_through_a_pickle(server: RegistryServer) -> None:
    import pickle

    ours = _bound(AvroSerde(schema=json.dumps(ORDER)), server)
    by_name = _bound(AvroSerde(), server)
    record = pickle.loads(pickle.dumps(by_name.deserialize(ours.serialize(VALUES[0]))))
    assert type(record) is AvroRecord
    assert by_name.serialize(record) == ours.serialize(VALUES[0])
