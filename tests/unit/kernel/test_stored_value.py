"""Rows of a store that the program cannot read: the error names store, key and both shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from mustela.kernel.core.codec import StoreCodec
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.row_versions import OldRows, RowVersions
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.state.stored_value import StoredValueError


@dataclass
class Order:
    total: int
    secret: str


@dataclass
class OrderNow:
    total: int
    secret: str
    customer: str


@dataclass
class OrderOfAnybody:
    total: int
    secret: str
    customer: str = "anybody"


SPEC = StoreSpec(
    name="orders",
    kind="key_value",
    key_serde=resolve_serde(str),
    value_serde=resolve_serde(OrderNow),
)
ROW = resolve_serde(Order).serialize(Order(4, "hush"))


def test_a_row_of_another_shape_is_named_with_its_key() -> None:
    """Both shapes are told, and no value."""
    codec = StoreCodec(SPEC, resolve_serde(OrderNow))
    with pytest.raises(StoredValueError) as caught:
        codec.decode_many([None, ROW], [b"a", b"b"])
    error = caught.value
    assert error.evidence["key"] == "'b'"
    assert error.evidence["row"] == "(total: int, secret: str)"
    assert error.evidence["program"] == "OrderNow(total: int, secret: str, customer: str)"
    assert (error.fields["store"], error.fields["key"]) == ("orders", b"b")
    assert "hush" not in str(error)
    with pytest.raises(StoredValueError):
        codec.decode_one(ROW)
    assert "change the type back, give each new field a default" in (error.fix or "")
    assert StoreCodec(SPEC, resolve_serde(Order)).decode_one(ROW) == Order(4, "hush")
    named = StoreCodec(SPEC, resolve_serde(OrderOfAnybody)).decode_one(ROW)
    assert named == OrderOfAnybody(4, "hush", "anybody")


def test_a_number_of_other_bytes_is_named_too() -> None:
    """Where numbers are read by column."""
    spec = StoreSpec(name="counts", key_serde=resolve_serde(str))
    codec = StoreCodec(spec, resolve_serde(int))
    texts = StoreCodec(spec, resolve_serde(str)).encode_many(["seven"], [5])
    with pytest.raises(StoredValueError) as caught:
        codec.decode_many(texts, [b"a"])
    assert caught.value.evidence["row"] == "5 bytes"
    assert caught.value.evidence["program"] == "int"


def test_a_processor_that_reads_such_a_row_is_told() -> None:
    """Through the handle of the store."""
    place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1, stores=(SPEC,))
    view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("orders")
    view.put(b"b", ROW)
    store = KeyValueStore[str, OrderNow](view, SPEC)
    with pytest.raises(StoredValueError) as caught:
        store.get("b")
    assert caught.value.fields["store"] == "orders"


def test_an_upgrade_that_fails_says_what_to_mend() -> None:
    """The row's key is named, and the version whose function it is."""
    older = {1: OldRows(serde=resolve_serde(Order), upgrade=lambda order: order.missing)}
    spec = replace(SPEC, row_versions=RowVersions(version=2, older=older))
    with pytest.raises(StoredValueError) as caught:
        StoreCodec(spec, resolve_serde(OrderNow)).decode_many([ROW], [b"a"])
    assert "version 1 failed: AttributeError" in caught.value.evidence["problem"]
    assert caught.value.fix == "fix the function that upgrades version 1"
