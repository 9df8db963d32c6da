"""Serdes with a schema registry beside JSON: ``python -m benchmarks.serdes``.

A thousand orders are encoded and decoded in batches, as an epoch does it, in turns: each format
once per round. Written down is processor time per record, its ratio to plain JSON in the same
rounds, and, for the formats of a registry, to confluent-kafka's own serializer of that format,
which works record by record. What each of them decodes is held against the orders, and its bytes
against Confluent's, before a number counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mustela.serdes.base import SerdePlace
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.schemas.avro import AvroSerde
from mustela.serdes.schemas.jsonschema import JsonSchemaSerde
from mustela.serdes.schemas.protobuf import ProtobufSerde
from tests.registry_server import RegistryServer
from tests.unit.serdes.schemas.protobuf_files import message

RESULTS = Path(__file__).parent / "results" / "serdes.jsonl"
TOPIC = "orders"
BATCH = 1_000
VALUE = SerializationContext(TOPIC, MessageField.VALUE)

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "user": {"type": "string"},
        "amount": {"type": "integer"},
        "price": {"type": "number"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["user", "amount", "price", "tags"],
}


@dataclass
class Order:
    """What is encoded."""

    user: str
    amount: int
    price: float
    note: str | None
    tags: list[str]


class Format(NamedTuple):
    """A way to turn orders into bytes and back.

    Attributes:
        name: What it is called in the results.
        values: The orders, as it takes them.
        encode: Encodes all of them.
        decode: Decodes what that gave.
        peer: The format whose time is the unit, beside plain JSON.
    """

    name: str
    values: Sequence[Any]
    encode: Callable[[Sequence[Any]], Sequence[bytes | None]]
    decode: Callable[[Sequence[bytes | None]], Sequence[Any]]
    peer: str | None = None


def orders() -> list[Order]:
    """Return a batch of different orders."""
    return [
        Order(f"user-{n}", n, n / 7, None if n % 3 else f"note {n}", ["a", "b", "c"][: n % 4])
        for n in range(BATCH)
    ]


def formats(server: RegistryServer, client: Any) -> list[Format]:
    """Return what is compared; each side talks to one registry."""
    classes = orders()
    dicts = [asdict(order) for order in classes]
    place, registry = SerdePlace(TOPIC), {"url": server.url}

    def ours(name: str, serde: Any, values: Sequence[Any], peer: str | None = None) -> Format:
        bound = serde.bound(place, registry)
        return Format(name, values, bound.serialize_many, bound.deserialize_many, peer)

    def theirs(name: str, write: Any, read: Any, values: Sequence[Any] = dicts) -> Format:
        return Format(
            name,
            values,
            lambda values: [write(value, VALUE) for value in values],
            lambda data: [read(one, VALUE) for one in data],
        )

    make: Any = AvroSerializer
    make_json: Any = JSONSerializer
    read_avro: Any = AvroDeserializer
    read_json: Any = JSONDeserializer
    make_message: Any = ProtobufSerializer
    read_message: Any = ProtobufDeserializer
    cls: Any = message("shop.Order")
    plain = {"use.deprecated.format": False}
    messages = [
        cls(user=one.user, total={"cents": one.amount}, lines=[{"item": tag} for tag in one.tags])
        for one in classes
    ]
    avro, schema = json.dumps(AVRO), json.dumps(JSON_SCHEMA)
    return [
        ours("json", resolve_serde("json"), dicts),
        ours("json of a dataclass", resolve_serde(Order), classes),
        theirs("confluent avro", make(client, avro), read_avro(client)),
        ours("avro", AvroSerde(schema=avro), dicts, "confluent avro"),
        ours("avro of a dataclass", AvroSerde(Order, schema=avro), classes, "confluent avro"),
        theirs("confluent json schema", make_json(schema, client), read_json(schema)),
        ours("json schema", JsonSchemaSerde(schema=schema), dicts, "confluent json schema"),
        theirs(
            "confluent protobuf",
            make_message(cls, client, plain),
            read_message(cls, plain),
            messages,
        ),
        ours("protobuf", ProtobufSerde(cls), messages, "confluent protobuf"),
    ]


def check(found: Sequence[Format]) -> None:
    """Hold what each format decodes against the orders, and its bytes against its peer's.

    Raises:
        AssertionError: If they differ.
    """
    data = {one.name: list(one.encode(one.values)) for one in found}
    for one in found:
        assert list(one.decode(data[one.name])) == list(one.values), one.name
        if one.name in ("avro", "protobuf"):
            assert data[one.name] == data[f"confluent {one.name}"], one.name


def measure(found: Sequence[Format], rounds: int) -> list[dict[str, Any]]:
    """Return nanoseconds of processor time per record of each format, and ratios."""
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for one in found:
            start = time.process_time_ns()
            data = one.encode(one.values)
            between = time.process_time_ns()
            one.decode(data)
            end = time.process_time_ns()
            taken.setdefault((one.name, "encode"), []).append((between - start) / BATCH)
            taken.setdefault((one.name, "decode"), []).append((end - between) / BATCH)

    def ratio(name: str, unit: str, way: str) -> float:
        pairs = zip(taken[name, way], taken[unit, way], strict=True)
        return round(statistics.median(mine / theirs for mine, theirs in pairs), 2)

    rows: list[dict[str, Any]] = []
    for one in found:
        row: dict[str, Any] = {"format": one.name, "rounds": rounds}
        for way in ("encode", "decode"):
            row[f"{way}_ns"] = round(statistics.median(taken[one.name, way]))
            row[f"{way}_to_json"] = ratio(one.name, found[0].name, way)
            if one.peer is not None:
                row[f"{way}_to_confluent"] = ratio(one.name, one.peer, way)
        rows.append(row)
    return rows


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serdes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--no-file", action="store_true", help="only print")
    given = parser.parse_args()
    with RegistryServer() as server, SchemaRegistryClient({"url": server.url}) as client:
        found = formats(server, client)
        check(found)
        rows = measure(found, given.rounds)
    for row in rows:
        print(json.dumps(row))
    if not given.no_file:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
