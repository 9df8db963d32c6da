"""What bytes mean, as text: the same in every process, another where the bytes are others."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from mustela.serdes.base import Serde
from mustela.serdes.meaning import serde_format, serde_shape, shape_of, shape_text
from mustela.serdes.resolve import resolve_serde, serde_names
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


@dataclass
class Part:
    code: str
    parts: list[Part] = field(default_factory=list)
    colour: Colour = Colour.RED


class Renamed(msgspec.Struct, rename="camel", tag="r", forbid_unknown_fields=True):
    first_name: str
    count: Annotated[int, msgspec.Meta(gt=0)] = 1


class Short(msgspec.Struct, omit_defaults=True):
    count: int = 5


class Page(msgspec.Struct, Generic[T]):
    items: list[T]


class Point(NamedTuple):
    x: int
    y: int = 0


class Loose(TypedDict):
    a: int
    b: NotRequired[str]


class Model(pydantic.BaseModel):
    total: int = pydantic.Field(gt=3, alias="sum")
    kind: Literal["x", "y"] = "x"
    when: datetime | None = None


class Custom(Serde[str]):
    def __init__(self, name: str = "") -> None:
        self.name = name

    def serialize(self, value: str | None) -> bytes | None:
        return None if value is None else value.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (Part, "Part(code: str, parts: list[itself] = …, colour: enum of g, r = …)"),
        (Renamed, "Renamed(firstName: str, count: int (msgspec.Meta(gt=0)) = …)"),
        (Page[int], "Page(items: list[int])"),
        (Point, "Point(x: int, y: int = …)"),
        (Loose, "Loose(a: int, b: str = …)"),
        (
            Model,
            "Model(sum: int (Gt(gt=3)), kind: literal of x, y = …,"
            " when: None | datetime.datetime = …)",
        ),
        (dict[str, tuple[int, ...]], "dict[str, tuple[int, …]]"),
        (Any, "any"),
    ],
)
def test_a_shape_is_told_as_a_type_is_written(spec: Any, told: str) -> None:
    """With the names that are in the bytes."""
    assert shape_text(shape_of(spec)) == told


def test_a_shape_is_json_without_modules_and_addresses() -> None:
    """A class that moves to another file keeps its rows."""
    for spec in (Part, Renamed, Page[int], Point, Loose, Model, Short):
        text = json.dumps(shape_of(spec))
        assert json.loads(text) == shape_of(spec)
        assert __name__ not in text
        assert "0x" not in text


def test_what_else_decides_about_the_bytes_is_in_the_shape() -> None:
    """Tags, refused fields, arrays, and defaults that rows leave out."""
    assert shape_of(Renamed)["tag"] == ["type", "r"]
    assert shape_of(Renamed)["extra"] == "forbid"
    assert shape_of(Point)["form"] == "array"
    assert shape_of(Short)["fields"] == [["count", "int", "=5"]]


def test_every_named_serde_has_a_format_of_its_own() -> None:
    """Two names of one serde have one; the sorted form for keys is another."""
    formats = {serde_format(resolve_serde(name)) for name in serde_names()}
    assert {"str", "int", "float", "float32", "int32", "json", "msgpack"} <= formats
    assert len(formats) == len({resolve_serde(name) for name in serde_names()}) - 2  # three of JSON
    assert serde_format(resolve_serde("json", key=True)) == "json sorted"
    assert serde_format(resolve_serde(Model)) != serde_format(resolve_serde(Part))


def test_windowed_keys_have_the_format_of_the_key_inside() -> None:
    """And the size, which the bytes do not hold."""
    minute = WindowedSerde(Part, window_size=timedelta(minutes=1))
    assert serde_format(minute) == "windowed(json sorted, 60000 ms)"
    assert serde_shape(minute) == serde_shape(resolve_serde(Part, key=True))
    assert serde_format(SessionWindowedSerde(str)) == "session-windowed(str)"


def test_a_serde_of_the_users_is_known_by_name_and_class() -> None:
    """Whatever module they are in; one without a name by its class."""
    assert serde_format(Custom("upper")) == "upper of Custom"
    assert serde_format(Custom()) == "unnamed of Custom"
    assert serde_shape(Custom()) == ""


def test_undeclared_values_have_the_shapes_of_their_classes() -> None:
    """They are in the bytes by name."""
    assert json.loads(serde_shape(ValueSerde([Point])))[0] == "classes"
    assert serde_shape(ValueSerde()) == ""
