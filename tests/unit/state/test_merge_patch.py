"""Partial updates of documents."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from mustela.state.faults import StoreError
from mustela.state.merge_patch import merge_patch, patched


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_cases_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """Appendix A of RFC 7396, all of it."""
    before = copy.deepcopy((target, patch))
    assert merge_patch(target, patch) == result
    assert (target, patch) == before


DOCUMENTS = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)


@given(DOCUMENTS, st.dictionaries(st.sampled_from("abc"), DOCUMENTS | st.none()))
def test_a_patch_twice_is_a_patch_once(target: Any, patch: Any) -> None:
    """So that a record that is read again does no harm."""
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@dataclass(frozen=True)
class Address:
    city: str
    zip: int | None = None


@dataclass(frozen=True)
class Person:
    name: str
    home: Address
    at: datetime
    paid: Decimal = Decimal(0)
    photo: bytes = b""
    tags: list[str] = field(default_factory=list[str])


class Order(msgspec.Struct):
    """A Struct."""

    count: int
    note: str = "none"


class Model(pydantic.BaseModel):
    """A pydantic model."""

    count: int
    inner: dict[str, int] = {}


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_typed_documents_stay_what_they_are() -> None:
    """Parts that are not in the patch keep their types; None gives a field its default."""
    ann = Person("Ann", Address("Rome", 7), NOON, Decimal("1.10"), b"\x00\xff", ["a"])
    moved = patched(ann, {"home": {"city": "Oslo"}, "tags": None})
    assert moved == Person("Ann", Address("Oslo", 7), NOON, Decimal("1.10"), b"\x00\xff", [])
    assert patched(Order(3, "x"), {"count": 4, "note": None}) == Order(4)
    assert patched(Model(count=1, inner={"a": 1}), {"inner": {"b": 2}}).inner == {"a": 1, "b": 2}
    assert patched(None, {"a": {"b": 1, "c": None}}) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("value", "patch", "told"),
    [
        (Order(3), {"count": None}, "a Order cannot be patched with .*count"),
        (Order(3), {"count": "x"}, "a Order cannot be patched with"),
        (Model(count=1), {"count": "x"}, "a Model cannot be patched with"),
        (7, {"a": 1}, "a value of type int cannot be patched"),
        ({"a": 1}, ["a"], "is not a patch"),
        ({"a": 1}, None, "is not a patch"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, patch: Any, told: str) -> None:
    """With what would."""
    with pytest.raises(StoreError, match=told):
        patched(value, patch)
