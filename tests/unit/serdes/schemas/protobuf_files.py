"""Messages as protoc would generate them: nested ones, and a file that uses another."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


def _field(
    message: Any, name: str, number: int, kind: Any, of: str = "", many: bool = False
) -> None:
    field = message.field.add(name=name, number=number, type=kind)
    if of:
        field.type_name = of
    field.label = _FIELD.LABEL_REPEATED if many else _FIELD.LABEL_OPTIONAL


@cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    timestamp = descriptor_pb2.FileDescriptorProto()
    from google.protobuf import timestamp_pb2

    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    pool.Add(timestamp)
    money = descriptor_pb2.FileDescriptorProto(
        name="shop/money.proto", package="shop", syntax="proto3"
    )
    amount = money.message_type.add(name="Money")
    _field(amount, "cents", 1, _FIELD.TYPE_INT64)
    pool.Add(money)
    orders = descriptor_pb2.FileDescriptorProto(
        name="shop/orders.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/money.proto", "google/protobuf/timestamp.proto"],
    )
    order = orders.message_type.add(name="Order")
    _field(order, "user", 1, _FIELD.TYPE_STRING)
    _field(order, "total", 2, _FIELD.TYPE_MESSAGE, ".shop.Money")
    _field(order, "at", 3, _FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _field(order, "lines", 4, _FIELD.TYPE_MESSAGE, ".shop.Order.Line", many=True)
    first = order.nested_type.add(name="Note")
    _field(first, "text", 1, _FIELD.TYPE_STRING)
    line = order.nested_type.add(name="Line")
    _field(line, "item", 1, _FIELD.TYPE_STRING)
    deep = line.nested_type.add(name="Deep")
    _field(deep, "n", 1, _FIELD.TYPE_INT32)
    refund = orders.message_type.add(name="Refund")
    _field(refund, "user", 1, _FIELD.TYPE_STRING)
    pool.Add(orders)
    return pool


def message(name: str) -> Any:
    """Return a message class by its whole name; those of the file shop/orders.proto."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))
