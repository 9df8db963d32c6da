"""Types where they change: said at the verb, or read from what functions say."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NewType, TypeVar

import pytest

from mustela import JoinWindows, Materialized, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.api.errors import BadOptionError, MissingSerdeError
from mustela.api.given_types import UNKNOWN, given_type, made_class, needs_serde, part_type
from mustela.processors import ContextualFixedKeyProcessor, ContextualProcessor
from mustela.serdes.base import Serde, SerdeTypeError
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import FloatSerde, IntSerde, StrSerde
from mustela.serdes.resolve import UnknownSerdeError
from mustela.serdes.structs import StructSerde
from mustela.serdes.values import ValueSerde
from mustela.topology.sink import SinkNode

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
NEAR = JoinWindows.of_time_difference(MINUTE, grace=MINUTE)
UserId = NewType("UserId", int)


@dataclass(frozen=True)
class Order:
    user: str
    total: int = 0


@dataclass
class Odd:
    what: object()  # type: ignore[valid-type]


class Plain:
    """Neither a dataclass nor anything else that has a serde."""

    def __init__(self, text: str = "") -> None:
        self.text = text


class OrderSerde(Serde[Order]):
    name = "order"
    immutable = True

    def serialize(self, value: Order | None) -> bytes | None:
        return None if value is None else f"{value.user}/{value.total}".encode()

    def deserialize(self, data: bytes | None) -> Order | None:
        if data is None:
            return None
        user, total = data.decode().split("/")
        return Order(user, int(total))


class Forward(ContextualProcessor):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class ForwardValue(ContextualFixedKeyProcessor):
    def process(self, record: Any) -> None:
        self.context.forward(record)


def to_order(text: str) -> Order:
    return Order(text, len(text))


def to_order_of(_key: str, text: str) -> Order | None:
    return to_order(text)


def orders_of(text: str) -> Iterator[Order]:
    yield to_order(text)


def pair_of(_key: str, text: str) -> tuple[Order, int]:
    return to_order(text), len(text)


def pairs_of(_key: str, text: str) -> list[tuple[str, Order]]:
    return [(text, to_order(text))]


def length(text: str) -> int:
    return len(text)


def size_of(_key: str, text: str) -> int:
    return len(text)


def both(left: str, right: str) -> Order:
    return Order(left + right)


def unreadable(text: str) -> NoSuchName:  # type: ignore[name-defined]  # noqa: F821
    return text


def half_readable(text: OnlyForCheckers) -> int:
    return len(str(text))


Verb = Callable[[Any], Any]


def stream_of(builder: StreamsBuilder) -> Any:
    return builder.stream("lines", key=str, value=str)


def sink_of(verb: Verb) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    builder = StreamsBuilder()
    verb(stream_of(builder)).to("out")
    (sink,) = (node for node in builder.build() if isinstance(node, SinkNode))
    return sink.key, sink.value


SAID: dict[str, tuple[Verb, Serde[Any], Serde[Any]]] = {
    "map": (lambda s: s.map(lambda k, v: (len(v), k), key=int, value=str), IntSerde(), StrSerde()),
    "map_values": (lambda s: s.map_values(len, value=float), StrSerde(), FloatSerde()),
    "with_key": (lambda s: s.map_values_with_key(max, value="json"), StrSerde(), JsonSerde()),
    "flat_map": (
        lambda s: s.flat_map(lambda k, v: [(v, k)], key=str, value=int),
        StrSerde(),
        IntSerde(),
    ),
    "flat_map_values": (lambda s: s.flat_map_values(list, value=int), StrSerde(), IntSerde()),
    "flat_with_key": (
        lambda s: s.flat_map_values_with_key(lambda k, v: [k], value=int),
        StrSerde(),
        IntSerde(),
    ),
    "select_key": (lambda s: s.select_key(lambda k, v: v, key=int), IntSerde(), StrSerde()),
    "process": (lambda s: s.process(Forward, key=int, value=float), IntSerde(), FloatSerde()),
    "process_values": (lambda s: s.process_values(ForwardValue, value=int), StrSerde(), IntSerde()),
    "join": (lambda s: s.join(s, lambda a, b: a, NEAR, value=int), StrSerde(), IntSerde()),
    "transform_values": (
        lambda s: s.to_table().transform_values(lambda k, v: v, value=int).to_stream(),
        StrSerde(),
        IntSerde(),
    ),
    "to_stream": (
        lambda s: s.to_table().to_stream(lambda k, v: v, key=int),
        IntSerde(),
        StrSerde(),
    ),
    "own serde": (
        lambda s: s.map_values(to_order, value=OrderSerde()),
        StrSerde(),
        OrderSerde(),
    ),
}


@pytest.mark.parametrize("case", SAID.values(), ids=SAID)
def test_a_verb_that_gives_another_type_takes_it(
    case: tuple[Verb, Serde[Any], Serde[Any]],
) -> None:
    """``key=`` and ``value=``, a type or a serde, and nothing more at the sink."""
    verb, key, value = case
    assert sink_of(verb) == (key, value)


READ: dict[str, tuple[Verb, str, str]] = {
    "map": (lambda s: s.map(pair_of), "json:Order:sorted", "int"),
    "map_values": (lambda s: s.map_values(length), "str", "int"),
    "a class": (lambda s: s.map_values(Order), "str", "json:Order"),
    "optional": (lambda s: s.map_values_with_key(to_order_of), "str", "json:Order"),
    "flat_map": (lambda s: s.flat_map(pairs_of), "str", "json:Order"),
    "flat_map_values": (lambda s: s.flat_map_values(orders_of), "str", "json:Order"),
    "partial": (lambda s: s.map_values(functools.partial(to_order)), "str", "json:Order"),
    "behind a filter": (lambda s: s.map_values(length).filter(max), "str", "int"),
    "merge": (lambda s: s.map_values(length).merge(s.map_values(length)), "str", "int"),
    "join": (lambda s: s.join(s, both, NEAR), "str", "json:Order"),
    "table": (lambda s: s.to_table().map_values(length).to_stream(), "str", "int"),
    "to_stream": (lambda s: s.to_table().to_stream(size_of).map_values(length), "int", "int"),
    "half readable": (lambda s: s.map_values(half_readable), "str", "int"),
}


@pytest.mark.parametrize("case", READ.values(), ids=READ)
def test_what_a_named_function_says_to_return_is_read(case: tuple[Verb, str, str]) -> None:
    """The sink needs no word about types then."""
    verb, key, value = case
    found = sink_of(verb)
    assert [serde.name if serde else "" for serde in found] == [key, value]


def test_windows_of_keys_of_a_read_type_can_be_written() -> None:
    """The key inside of a windowed one is the one that the function gives."""
    builder = StreamsBuilder()
    grouped = stream_of(builder).group_by(size_of)
    counts = grouped.windowed_by(TimeWindows(size=MINUTE, grace=MINUTE)).count(store="c")
    counts.to_stream().to("out")
    sink = builder.build().nodes[-1]
    assert isinstance(sink, SinkNode)
    assert sink.key is not None
    assert sink.key.name == "windowed(int,60000)"


def test_keys_of_windows_are_not_taken_for_the_keys_inside() -> None:
    """Where windows of two sizes meet nothing is known, and nothing is guessed."""
    builder = StreamsBuilder()
    grouped = stream_of(builder).group_by(size_of)
    one, other = (
        grouped.windowed_by(TimeWindows(size=size, grace=MINUTE)).count(store=name).to_stream()
        for size, name in ((MINUTE, "a"), (2 * MINUTE, "b"))
    )
    with pytest.raises(MissingSerdeError):
        one.merge(other).to("out", value=int)


def test_an_annotation_that_cannot_be_read_does_no_harm() -> None:
    """The program runs as if there were none."""
    builder = StreamsBuilder()
    mapped = stream_of(builder).map_values(unreadable)
    mapped.to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("lines").pipe_input("a", "b")
        assert driver.create_output_topic("out").read_values_to_list() == ["b"]
    with pytest.raises(MissingSerdeError):
        mapped.to("other")


def test_stores_of_pythons_own_types_keep_their_format() -> None:
    """An annotation must not change what the rows of a running application are."""
    builder = StreamsBuilder()
    kept = stream_of(builder).map_values(length).group_by(size_of)
    kept.reduce(max, store="kept")
    (store,) = builder.build().nodes[-1].stores
    assert store.key_serde == ValueSerde(sort_keys=True)
    assert store.value_serde == ValueSerde()


def test_a_class_that_a_function_says_to_give_is_kept_and_travels() -> None:
    """Values and keys, in stores and to the lane of their key."""
    builder = StreamsBuilder()
    orders = stream_of(builder).map_values(to_order)

    def by_user(_key: str, order: Order) -> Order:
        return Order(order.user)

    # A name of this function: found in the cells of the one above.
    orders.group_by(by_user).reduce(lambda _old, new: new, store="last").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("lines").pipe_input("a", "ann")
        rows = driver.get_key_value_store("last")
        assert rows[Order("ann")] == Order("ann", 3)
        found = driver.create_output_topic("out").read_key_values_to_list()
        assert found == [(Order("ann"), Order("ann", 3))]


def test_what_makes_the_first_aggregate_tells_the_class() -> None:
    """An adder that is a lambda says nothing, the class before it all."""
    builder = StreamsBuilder()
    grouped = stream_of(builder).group_by_key()
    table = grouped.aggregate(lambda: Order("none"), lambda _k, v, _a: Order(v), value=Order)
    assert table.serdes[1] == StructSerde(Order)

    def first() -> Order:
        return Order("none")

    read = grouped.aggregate(first, lambda _k, v, _a: Order(v), store="read")
    assert read.serdes[1] == StructSerde(Order)


def test_what_is_said_goes_before_what_is_read() -> None:
    """At the verb, at the store, and where the other side of a join is said."""
    builder = StreamsBuilder()
    stream = stream_of(builder)
    kept: Materialized[Any, Any] = Materialized(store="a", key=OrderSerde())
    stream.select_key(to_order_of).group_by_key().count(kept)
    users = builder.table("users", key=OrderSerde(), value=str)
    joined = stream.select_key(to_order_of, name="by").join(users, lambda a, b: a + b, value=str)
    assert joined.serdes[0] == OrderSerde()
    stores = [store for node in builder.build() for store in node.stores]
    assert stores[0].key_serde == OrderSerde()


REFUSED: dict[str, tuple[Verb, str]] = {
    "reduce": (
        lambda s: s.map_values(lambda v: Order(v)).group_by_key().reduce(min, store="x"),
        "map_values(..., value=Order)",
    ),
    "count": (
        lambda s: s.select_key(lambda k, v: Order(user=v)).group_by_key().count(store="x"),
        "select_key(..., key=Order)",
    ),
    "group_by": (
        lambda s: s.group_by(lambda k, v: Order(**{"user": v})).count(store="x"),
        "group_by(..., key=Order)",
    ),
    "aggregate": (
        lambda s: s.group_by_key().aggregate(lambda: Order(""), max, store="x"),
        "aggregate(..., value=Order)",
    ),
    "windows": (
        lambda s: (
            s.group_by_key()
            .windowed_by(TimeWindows(size=MINUTE, grace=MINUTE))
            .aggregate(lambda: Order(""), max, store="x")
        ),
        "aggregate(..., value=Order)",
    ),
    "to_table": (
        lambda s: s.map_values_with_key(lambda k, v: Order(v)).to_table(store="x"),
        "map_values_with_key(..., value=Order)",
    ),
    "join": (
        lambda s: s.map_values(lambda v: Order(v, len(v))).join(s, max, NEAR),
        "map_values(..., value=Order)",
    ),
    "joiner": (
        lambda s: s.join(s, lambda a, b: Order(a), NEAR).to_table(store="x"),
        "join(..., value=Order)",
    ),
    "table": (
        lambda s: s.to_table().map_values(lambda v: Order(v), store="x"),
        "map_values(..., value=Order)",
    ),
    "no serde": (
        lambda s: s.map_values(Plain).to_table(store="x"),
        "make it a dataclass or a msgspec.Struct and write map_values(..., value=...)",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_class_that_nobody_declared_is_refused_where_it_would_be_kept(
    case: tuple[Verb, str],
) -> None:
    """When the topology is built, at the user's line, with a keyword that the verb has."""
    verb, fix = case
    builder = StreamsBuilder()
    verb(stream_of(builder))
    with pytest.raises(MissingSerdeError) as caught:
        builder.build()
    assert fix in str(caught.value.fix)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__
    assert "made by" in caught.value.evidence


def test_a_class_that_is_kept_nowhere_needs_no_serde() -> None:
    """Values do not become bytes between two steps."""
    builder = StreamsBuilder()
    made = stream_of(builder).map_values(lambda v: Order(v))
    made.group_by(lambda _k, order: order.user).count(store="x")
    made.map_values(lambda order: order.user).to("out", value=str)
    assert builder.build()


def test_a_type_without_serde_names_the_step_and_the_line() -> None:
    """At the verb that says it."""
    stream = stream_of(StreamsBuilder())
    with pytest.raises(UnknownSerdeError) as caught:
        stream.map_values(len, value=complex, name="wrong")
    assert caught.value.evidence["step"] == "wrong"
    assert caught.value.at is not None
    assert caught.value.at.code.startswith("stream.map_values(len, value=complex")
    with pytest.raises(SerdeTypeError) as odd:
        stream.select_key(lambda _k, v: v, key=Odd, name="odd")
    assert odd.value.at is not None


def test_keys_that_stay_take_no_type() -> None:
    """``to_stream`` without a mapper keeps them."""
    table = StreamsBuilder().table("rows", key=str, value=str)
    with pytest.raises(BadOptionError) as caught:
        table.to_stream(key=int)  # type: ignore[call-overload]  # pyright: ignore
    assert "give a mapper" in str(caught.value.fix)


class WithCall:
    def __call__(self, text: str) -> Order:
        return Order(text)

    def method(self, text: str) -> Order:
        return Order(text)

    @classmethod
    def make(cls, text: str) -> WithCall:
        return cls()


def many(text: str) -> Iterable[Order]: ...
def generated(text: str) -> Generator[int, None, None]: ...
def listed(text: str) -> Sequence[UserId]: ...
def any_of(text: T) -> T: ...
def nothing(text: str) -> None: ...
async def awaited(text: str) -> Order: ...


@pytest.mark.parametrize(
    ("function", "part", "wanted"),
    [
        (many, "each", Order),
        (generated, "each", int),
        (listed, "each", int),
        (any_of, "all", T),
        (nothing, "all", UNKNOWN),
        (awaited, "all", Order),
        (WithCall(), "all", Order),
        (WithCall().method, "all", Order),
        (WithCall.make, "all", WithCall),
        (str.upper, "all", UNKNOWN),
        (len, "each", UNKNOWN),
        (pairs_of, "key", UNKNOWN),
        (to_order, "value", UNKNOWN),
        (pairs_of, "each_value", Order),
    ],
)
def test_a_type_is_read_of_whatever_can_be_called(function: Any, part: Any, wanted: Any) -> None:
    """And is unknown where nothing says it."""
    assert part_type(given_type(function), part) == wanted


def test_what_counts_as_a_class_of_the_users() -> None:
    """What may be another class than it says, or one of Python's, is not refused."""
    assert needs_serde(Order)
    assert needs_serde(list[Plain])
    assert not any(map(needs_serde, (int, dict[str, int], UNKNOWN, T, Iterable, bool | None)))


@pytest.mark.parametrize(
    ("function", "made"),
    [
        (lambda v: Order(v), Order),
        (lambda v: Order(user=v, total=len(v) + 1), Order),
        (lambda v: Order(*[v], **{}), Order),
        (lambda v: Order(v) if v else None, UNKNOWN),
        (lambda v: Order(v).user, UNKNOWN),
        (lambda v: str(Order(v)), UNKNOWN),
        (lambda v: v.of(Order(v)), UNKNOWN),
        (lambda v: [Order(v)], UNKNOWN),
    ],
)
def test_what_a_function_without_branches_makes_is_seen(function: Any, made: Any) -> None:
    """Only the class of its result counts, not of what stands inside."""
    assert made_class(function) is made
