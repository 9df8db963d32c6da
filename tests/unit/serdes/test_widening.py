"""Which values of an older shape can be read: shown by reading them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from mustela.serdes.meaning import shape_of
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.widening import widening


@dataclass
class Order:
    total: int


@dataclass
class OrderWithNote:
    total: int
    note: str = "none"
    lines: list[Order] = field(default_factory=list)


@dataclass
class OrderWithout:
    note: str = "none"


@dataclass
class OrderMaybe:
    total: int | None


@dataclass
class OrderText:
    total: str


@dataclass
class Basket:
    orders: dict[str, Order]


@dataclass
class BasketWithNotes:
    orders: dict[str, OrderWithNote]


@dataclass
class BasketOfText:
    orders: dict[str, OrderText]


class Point(NamedTuple):
    x: int


class PointInSpace(NamedTuple):
    x: int
    y: int = 7


class PointElsewhere(NamedTuple):
    y: int
    x: int = 0


class Five(msgspec.Struct, omit_defaults=True):
    count: int = 5


class Six(msgspec.Struct, omit_defaults=True):
    count: int = 6


class Loose(TypedDict):
    a: NotRequired[int]


class Strict(TypedDict):
    a: int


class Model(pydantic.BaseModel):
    total: int


class ModelWithNote(pydantic.BaseModel):
    total: int
    note: str = "none"


class Two(enum.Enum):
    A = "a"
    B = "b"


class Three(enum.Enum):
    A = "a"
    B = "b"
    C = "c"


TwoHolder = make_dataclass("Holder", [("kind", Two)])
ThreeHolder = make_dataclass("Holder", [("kind", Three)])


@pytest.mark.parametrize(
    ("then", "now", "value"),
    [
        (Order, OrderWithNote, Order(4)),
        (Order, OrderMaybe, Order(4)),
        (Basket, BasketWithNotes, Basket({"a": Order(1)})),
        (Point, PointInSpace, Point(3)),
        (Model, ModelWithNote, Model(total=3)),
        (Strict, Loose, {"a": 1}),
        (TwoHolder, ThreeHolder, TwoHolder(Two.B)),
        (list[int], list[float], [1, 2]),
        (list[int], list[int | str], [1, 2]),
        (list[int | None], list[int | str | None], [1, None]),
        (list[Literal["a"]], list[Literal["a", "b"]], ["a"]),
        (dict[str, Order], dict[str, Any], {"a": Order(1)}),
        (tuple[int, Order], tuple[int, OrderWithNote], (1, Order(2))),
    ],
)
def test_a_wider_shape_reads_what_was_written(then: Any, now: Any, value: Any) -> None:
    """And says what is new; the rows read are the ones written."""
    found = widening(shape_of(then), shape_of(now))
    assert found.readable, found.problems
    assert found.gained
    data = resolve_serde(then).serialize(value)
    again = resolve_serde(now).deserialize(data)
    assert getattr(again, "total", 4) in {4, 3}
    assert again is not None


@pytest.mark.parametrize(
    ("then", "now", "problem"),
    [
        (OrderWithNote, Order, "field note is gone"),
        (Order, OrderWithout, "field total is gone"),
        (Order, OrderText, "total is str, but was int"),
        (OrderWithout, OrderWithNote, "field total is new and has no default"),
        (OrderMaybe, Order, "total is int, but was None"),
        (Basket, BasketOfText, "orders[].total is str, but was int"),
        (PointInSpace, Point, "field y is gone"),
        (Point, PointElsewhere, "field y is where x was"),
        (Five, Six, "rows without count mean 5, but its default is now 6"),
        (Loose, Strict, "rows may lack a"),
        (ThreeHolder, TwoHolder, "kind may no longer be c"),
        (Order, list[int], "the value is list[int], but was Order(total: int)"),
        (Order, Point, "the value has form array, but had map"),
        (list[float], list[int], "[] is int, but was float"),
    ],
)
def test_what_cannot_be_read_without_loss_is_named(then: Any, now: Any, problem: str) -> None:
    """With the place inside the value."""
    assert problem in widening(shape_of(then), shape_of(now)).problems


def test_the_same_shape_is_no_change() -> None:
    """Also of a class that holds itself."""
    for spec in (Basket, PointInSpace, Model, Five, list[Order]):
        found = widening(shape_of(spec), shape_of(spec))
        assert (found.gained, found.problems) == ([], [])
