"""Typed documents: struct columns, into a batch and out of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import Phase, given, settings, strategies as st

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela.runtime.batch import BatchInputError, BatchOutputError
from mustela.schemas import AvroSerde
from mustela.spark.arrow import arrow as pa
from tests.batches import batched, rows, table

REGISTRY = {"url": "mock://batch-documents"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(msgspec.Struct, frozen=True):
    city: str
    code: int | None = None


@dataclass
class Order:
    customer: str
    total: int
    price: Decimal
    at: datetime
    due: date
    ident: UUID
    colour: Colour
    raw: bytes
    place: Place | None = None
    took: timedelta = timedelta(0)
    places: list[Place] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    grouped: dict[str, list[dict[str, int]]] = field(default_factory=dict)


class Shop(msgspec.Struct, rename="camel"):
    shop_name: str
    open_now: bool = True


class Model(pydantic.BaseModel):
    city: str = pydantic.Field(alias="theCity")
    sizes: dict[str, float] = {}


class Sale(msgspec.Struct):
    city: str
    amount: int
    tags: list[str]
    at: datetime
    price: float | None = None


texts = st.text(max_size=5)
whole = st.integers(-(2**63), 2**63 - 1)
counts = st.dictionaries(texts, whole, max_size=3)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
places = st.builds(Place, texts, st.none() | whole)
orders = st.builds(
    Order,
    customer=texts,
    total=whole,
    price=st.decimals(-(10**20), 10**20, places=9),
    at=moments,
    due=st.dates(),
    ident=st.uuids(),
    colour=st.sampled_from(Colour),
    raw=st.binary(max_size=5),
    place=st.none() | places,
    took=st.timedeltas(timedelta(-9), timedelta(9)),
    places=st.lists(places, max_size=2),
    counts=counts,
    grouped=st.dictionaries(texts, st.lists(counts, max_size=2), max_size=2),
)
shops = st.builds(Shop, texts, st.booleans())
models = st.builds(
    Model,
    theCity=texts,
    sizes=st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False)),
)
sales = st.builds(
    Sale,
    city=texts,
    amount=whole,
    tags=st.lists(texts, max_size=2),
    at=moments.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    price=st.none() | st.floats(allow_nan=False),
)
KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "dataclass": (Order, lambda order: {**asdict(order), **_plain(order)}),
    "struct": (Shop, msgspec.to_builtins),
    "pydantic": (Model, lambda model: model.model_dump(by_alias=True)),
    "avro": (AvroSerde(Sale, registry=REGISTRY), msgspec.structs.asdict),
}
VALUES = {"dataclass": orders, "struct": shops, "pydantic": models, "avro": sales}


def _plain(order: Order) -> dict[str, Any]:
    """Return the fields that a column has otherwise than Python."""
    place = None if order.place is None else msgspec.structs.asdict(order.place)
    return {
        "ident": str(order.ident),
        "colour": order.colour.value,
        "place": place,
        "places": [msgspec.structs.asdict(one) for one in order.places],
    }


def app_of(kind: Any) -> App:
    """The last document of each key, which a table passes on as it comes."""

    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=kind).group_by_key()
        grouped.reduce(lambda _one, other: other, store="last").to_stream().to("out")

    app = App("documents", {"emit": "every", "key_groups": 2})
    app.topology(build)
    return app


def _dicts(cell: Any, kind: Any) -> Any:
    """Return a cell with its maps as dicts."""
    if cell is None:
        return None
    if pa.types.is_map(kind):
        return {key: _dicts(value, kind.item_type) for key, value in cell}
    if pa.types.is_list(kind):
        return [_dicts(value, kind.value_type) for value in cell]
    if pa.types.is_struct(kind):
        return {each.name: _dicts(cell[each.name], each.type) for each in kind}
    return cell


@pytest.mark.parametrize("name", sorted(KINDS))
def test_documents_are_structs_and_come_back_as_they_were(name: str) -> None:
    """What the stream writes, as columns; these can be read again, and give the same."""
    kind, plain = KINDS[name]

    @settings(max_examples=15, deadline=None, phases=[Phase.generate, Phase.shrink])
    @given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | VALUES[name]), max_size=4))
    def same(records: list[tuple[str, Any]]) -> None:
        app = app_of(kind)
        with TopologyTestDriver(app) as driver:
            driver.create_input_topic("in").pipe_key_value_list(records)
            wanted = driver.create_output_topic("out").read_key_values_to_list()
        serde: Any = app.built_plan().nodes[0].value  # pyright: ignore[reportAttributeAccessIssue]
        data = [(key, serde.serialize(value), n) for n, (key, value) in enumerate(records)]
        with batched(app, {"in": _in_bytes(data)}) as result:
            typed = result.to_arrow("out")
        kind_of = typed.schema.field("value").type
        assert pa.types.is_struct(kind_of)
        shown = by_key(typed, lambda cell: _dicts(cell, kind_of))
        for key in "ab":  # a batch keeps the order of each key
            values = [value for name, value in wanted if name == key]
            assert shown.get(key, []) == [
                None if value is None else plain(value) for value in values
            ]
        again = typed.select(["key", "value", "timestamp", "offset"])
        with batched(app, {"in": again}) as result:
            assert by_key(result.to_arrow("out"), lambda cell: _dicts(cell, kind_of)) == shown

    same()


def by_key(written: Any, shown: Callable[[Any], Any] = lambda cell: cell) -> dict[Any, list[Any]]:
    """Return the values of each key, in their order."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in written.to_pylist():
        found[row["key"]].append(shown(row["value"]))
    return found


def _in_bytes(records: list[tuple[str, Any, int]]) -> Any:
    keys, values, times = zip(*records, strict=True) if records else ((), (), ())
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(times, pa.int64()),
        }
    )


def test_fields_of_a_document_in_avro_may_be_columns() -> None:
    """Each field a column, as for documents in JSON."""
    data = pa.table({"city": ["Rome"], "amount": [7], "timestamp": [1]})
    data = data.append_column("tags", pa.array([["a"]]))
    at = datetime(2026, 1, 31, tzinfo=UTC)
    data = data.append_column("at", pa.array([at], pa.timestamp("us", "UTC")))

    def build(builder: StreamsBuilder) -> None:
        sold = builder.stream("in", key=str, value=AvroSerde(Sale, registry=REGISTRY))
        sold.map_values(lambda sale: f"{sale.city} {sale.amount + 1} {sale.at.year}", value=str).to(
            "out"
        )

    app = App("fields", {"key_groups": 1})
    app.topology(build)
    with batched(app, {"in": data}) as result:
        assert rows(result, "out") == [(None, "Rome 8 2026", 1)]
    with pytest.raises(BatchInputError, match=r"no .*Sale: .*amount"):
        batched(app, {"in": data.set_column(1, "amount", pa.array(["many"]))})


def test_a_value_that_does_not_fit_is_not_cut() -> None:
    """BATCH_OUTPUT: it is refused with its column; the bytes are there."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=dict[str, int]).to("out", value=dict[str, int])

    app = App("wide", {"key_groups": 1})
    app.topology(build)
    with batched(app, {"in": table(("k", f'{{"n":{2**70}}}', 1))}) as result:
        with pytest.raises(BatchOutputError, match="column value, map<string, int64>"):
            result.to_arrow("out")
        [row] = result.to_arrow("out", raw=True).to_pylist()
        assert row["value"] == f'{{"n":{2**70}}}'.encode()
