"""Keys and values as JSON, both ways, by their serde."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from base64 import b64encode
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import jsonschema
import msgspec
import pydantic
import pytest
from hypothesis import example, given, strategies as st

from mustela.model import SessionWindowed, Windowed
from mustela.serdes.base import Serde, SerdePlace
from mustela.serdes.documents import DocumentError, form_of
from mustela.serdes.plain_values import plain_value
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.row_versions import OldRows, RowVersions, UpgradingSerde
from mustela.serdes.schemas.avro import AvroSerde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde


@dataclasses.dataclass(frozen=True)
class Order:
    total: int
    at: datetime
    raw: bytes = b""
    price: Decimal = Decimal("1.50")


class Tagged(msgspec.Struct, frozen=True, tag=True, rename="camel"):
    first_name: str


class Model(pydantic.BaseModel):
    total: int
    note: str | None = pydantic.Field(default=None, alias="remark")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    HALF = 0.5


class Upper(Serde[str]):
    name = "upper"

    def serialize(self, value: str | None) -> bytes | None:
        return None if value is None else value.upper().encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


class Opaque:
    """A value that JSON does not know."""


class OpaqueSerde(Serde[Any]):
    name = "opaque"

    def serialize(self, value: Any) -> bytes | None:
        return None if value is None else b"opaque bytes"

    def deserialize(self, data: bytes | None) -> Any:
        return None if data is None else Opaque()


AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORDER = Order(3, AT, b"\x00\xff")
BOUND = AvroSerde(Order).bound(SerdePlace("orders"), {"url": "mock://documents"})

SHOWN = [
    (resolve_serde(str), "né/ ?", "né/ ?", "né/ ?"),
    (resolve_serde(str), "", "", ""),
    (resolve_serde(int), -7, -7, "-7"),
    (resolve_serde("int16"), 7, 7, "7"),
    (resolve_serde(float), 0.5, 0.5, "0.5"),
    (resolve_serde(float), math.inf, "Infinity", None),
    (resolve_serde(bool), True, True, "true"),
    (resolve_serde(bytes), b"\xff\xfe\x00", "//4A", "//4A"),
    (resolve_serde(UUID), UUID(int=7), str(UUID(int=7)), str(UUID(int=7))),
    (resolve_serde(Decimal), Decimal("1.50"), "1.50", "1.50"),
    (resolve_serde(date), date(2026, 1, 31), "2026-01-31", "2026-01-31"),
    (resolve_serde(datetime), AT, "2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.000000Z"),
    (resolve_serde(timedelta), timedelta(hours=1), "PT3600S", "PT3600S"),
    (resolve_serde(Colour), Colour.RED, "red", "red"),
    (resolve_serde(Level), Level.HIGH, 2, "2"),
    (resolve_serde(Odd), Odd.HALF, "HALF", "HALF"),
    (resolve_serde(dict), {"a": [1, None]}, {"a": [1, None]}, '{"a":[1,null]}'),
    (resolve_serde(list[int]), [1, 2], [1, 2], "[1,2]"),
    (
        resolve_serde(Order),
        ORDER,
        {"total": 3, "at": "2026-01-31T12:00:00Z", "raw": "AP8=", "price": "1.50"},
        None,
    ),
    (resolve_serde(Tagged), Tagged("Bo"), {"type": "Tagged", "firstName": "Bo"}, None),
    (resolve_serde(Model), Model(total=1, remark="x"), {"total": 1, "remark": "x"}, None),
    (
        BOUND,
        ORDER,
        {"total": 3, "at": "2026-01-31T12:00:00Z", "raw": "AP8=", "price": "1.50"},
        None,
    ),
    (ValueSerde(sort_keys=True), "word", "word", "word"),
    (ValueSerde(sort_keys=True), "7", "7", '"7"'),
    (ValueSerde(sort_keys=True), 7, 7, "7"),
    (ValueSerde(sort_keys=True), ("a", ("b", 1)), ["a", ["b", 1]], '["a",["b",1]]'),
    (Upper(), "WORD", "WORD", '"WORD"'),
    (
        WindowedSerde(str, window_size=timedelta(milliseconds=10)),
        Windowed("a", 20, 30),
        {"key": "a", "start": 20, "end": 30},
        '{"key":"a","start":20,"end":30}',
    ),
    (
        SessionWindowedSerde(int),
        SessionWindowed(1, 20, 31),
        {"key": 1, "start": 20, "end": 31},
        None,
    ),
]


@pytest.mark.parametrize(("serde", "value", "document", "text"), SHOWN)
def test_a_value_is_shown_and_comes_back(
    serde: Serde[Any], value: Any, document: Any, text: str | None
) -> None:
    """What is read over HTTP is a document; the same document, or its text, names the value."""
    form = form_of(serde)

    assert form.to_document(value) == document
    back = form.from_document(json.loads(json.dumps(document)))
    assert back == value
    assert serde.serialize(back) == serde.serialize(value)
    assert form.from_text(form.to_text(value)) == value
    if text is not None:
        assert form.to_text(value) == text


@pytest.mark.parametrize(("serde", "value", "document", "text"), SHOWN)
def test_a_document_is_valid_by_its_schema(
    serde: Serde[Any], value: Any, document: Any, text: str | None
) -> None:
    """The schema of a serde describes what is shown."""
    schema, named = form_of(serde).schema("orders.value")

    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(name.startswith("orders.value.") for name in named)
    whole = {**schema, "components": {"schemas": named}}
    jsonschema.Draft202012Validator(whole).validate(document)


def test_a_declared_type_is_described_with_its_fields() -> None:
    """The schema of a dataclass and of a pydantic model names their fields."""
    _, named = form_of(resolve_serde(Order)).schema("orders.value")
    assert list(named["orders.value.Order"]["properties"]) == ["total", "at", "raw", "price"]

    schema, _ = form_of(resolve_serde(Model)).schema("notes.value")
    assert list(schema["properties"]) == ["total", "remark"]


def test_rows_of_older_versions_have_the_form_of_the_newest() -> None:
    """A serde that upgrades rows is shown as the one of the current version."""
    versions = RowVersions(version=2, older={1: OldRows(serde=resolve_serde(str), upgrade=int)})
    assert form_of(UpgradingSerde(resolve_serde(int), versions)).schema("x")[0]["type"] == "integer"


def test_base64_may_use_the_letters_of_urls() -> None:
    """Bytes in a path can do without letters that a path has for itself."""
    assert form_of(resolve_serde(bytes)).from_text("__4A") == b"\xff\xfe\x00"
    assert form_of(resolve_serde(bytes)).from_text("YQ") == b"a"


def test_what_cannot_be_shown_is_its_bytes() -> None:
    """A value of a serde of the user's that JSON does not know is base64 of its bytes."""
    assert form_of(OpaqueSerde()).to_document(Opaque()) == b64encode(b"opaque bytes").decode()


def test_values_without_a_declared_type_are_shown_as_far_as_json_goes() -> None:
    """Sets, Counters, tuples as keys, nested classes."""
    shown = plain_value({"seen": {3, 1}, "count": Counter("aab"), "nan": math.nan, "order": ORDER})
    assert shown["seen"] == [1, 3]
    assert shown["count"] == {"a": 2, "b": 1}
    assert shown["nan"] == "NaN"
    assert shown["order"]["raw"] == "AP8="
    assert plain_value({("a", 1): 2}) == [[["a", 1], 2]]
    assert plain_value({1: "a", "1": "b"}) == [[1, "a"], ["1", "b"]]


@pytest.mark.parametrize(
    ("spec", "document"),
    [
        (str, 7),
        (str, None),
        (int, True),
        (int, "7"),
        (int, 1 << 70),
        (float, "7"),
        (bytes, "%"),
        (UUID, "7"),
        (Decimal, "x"),
        (Colour, "green"),
        (Colour, ["red"]),
        (Odd, ["HALF"]),
        (Order, {"total": "x"}),
        (Model, {"total": "x"}),
        (WindowedSerde(str, window_size=None), {"key": "a", "start": 1.5}),
        (WindowedSerde(str, window_size=None), ["a"]),
        (SessionWindowedSerde(str), {"key": 7, "start": 1, "end": 2}),
    ],
)
def test_what_is_no_value_is_refused_without_being_repeated(spec: Any, document: Any) -> None:
    """The error says which serde it is and what it wants, and does not show the document."""
    with pytest.raises(DocumentError) as caught:
        form_of(resolve_serde(spec)).from_document(document)

    assert caught.value.code == "QUERY_DOCUMENT"
    assert "green" not in str(caught.value)


FORMS = [form_of(serde) for serde, *_ in SHOWN]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(FORMS), JSON_VALUES)
@example(form_of(Upper()), [])
def test_no_document_breaks_a_form(form: Any, document: Any) -> None:
    """Any JSON is a value, or a document error; what is a value can be written."""
    try:
        value = form.from_document(document)
    except DocumentError:
        return
    assert form.serde.serialize(value) is not None
    json.dumps(form.to_document(value))


@given(st.sampled_from(FORMS), st.text())
def test_no_text_breaks_a_form(form: Any, text: str) -> None:
    """Any path names a key, or is a document error."""
    try:
        key = form.from_text(text)
    except DocumentError:
        return
    assert form.serde.serialize(key) is not None


NESTED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.uuids()
    | st.datetimes()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner, max_size=3)
        | st.sets(st.integers() | st.text(), max_size=3)
    ),
    max_leaves=10,
)


@given(NESTED)
def test_any_value_of_a_store_can_be_shown(value: Any) -> None:
    """Whatever a store without a declared type can hold is JSON, and no JSON that others refuse."""
    json.dumps(form_of(ValueSerde()).to_document(value), allow_nan=False)
