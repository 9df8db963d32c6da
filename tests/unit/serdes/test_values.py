"""Store values without a declared serde come back as exactly what they were."""

from __future__ import annotations

import dataclasses
import enum
import os
import pickle
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, strategies as st

from mustela.api.update import Updated
from mustela.model import Windowed
from mustela.serdes.base import SerdeError, SerdeTypeError
from mustela.serdes.values import ValueSerde


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    id: UUID
    lines: list[Line]
    note: str | None = None


class Point(NamedTuple):
    x: int
    y: int = 0


class Sample(msgspec.Struct, frozen=True):
    at: datetime
    tags: frozenset[str] = frozenset()


class Colour(enum.Enum):
    RED = 1
    BLUE = (2, "b")


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


CLASSES = (Order, Point, Sample, Colour, Rights, Level)
SERDE = ValueSerde(CLASSES)


def back(value: object, serde: ValueSerde = SERDE) -> Any:
    return serde.deserialize(serde.serialize(value))


def same(left: Any, right: Any) -> bool:
    """Equal with equal types at every depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        order = all(same(a, b) for a, b in pairs)
        return len(left) == len(right) and order
    if isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        kinds = sorted(map(repr, map(type, left))) == sorted(map(repr, map(type, right)))
        return left == right and kinds
    if dataclasses.is_dataclass(left) or isinstance(left, msgspec.Struct):
        names = type(left).__annotations__
        return all(same(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, float):
        return left.hex() == right.hex()
    if isinstance(left, datetime | time):
        return left == right and left.fold == right.fold and repr(left) == repr(right)
    return left == right


EXAMPLES: list[Any] = [
    *(0, -1, 2**64 - 1, 2**64, -(2**63) - 1, 10**100, -(10**100)),
    *(True, False, 0.0, -0.0, 1.0, "", "né", b"", b"\x00"),
    *((), (1, (2, ())), [], [(1,), [1]], {}, {1: "a", "1": "b", None: 0, 1.5: 1, b"k": 2}),
    *({1, 2}, set(), frozenset({frozenset()}), {(1, 2): {3}}, {Point(1): 1, "x": 2}),
    *(Decimal("1.50"), Decimal("-0"), Decimal("1E+400"), Decimal("Infinity")),
    *(UUID(int=7), bytearray(b"x"), deque([1, (2,)], maxlen=5), deque()),
    *(Counter("abca"), OrderedDict([("b", 1), ("a", (2,))])),
    *(defaultdict(int, {"a": 1}), defaultdict(list, {"a": [(1,)]}), defaultdict(None, a=1)),
    *(date(1, 1, 1), time(1, 2, 3, 4), time(1, 2, tzinfo=UTC), timedelta(-1, 2, 3)),
    *(datetime(2026, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001 - naive
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-3, microseconds=1))),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "X")),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "GMT")),
    datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")),
    Order(UUID(int=1), [Line("a", Decimal("0.10")), Line("b", Decimal(2**70))]),
    *(Point(1, 2), [Point(1)], Sample(datetime(2026, 1, 1, tzinfo=UTC), frozenset("ab"))),
    *(Colour.RED, Colour.BLUE, Rights.READ, Rights.READ | Rights.WRITE, Rights(0), Level.LOW),
    {"deep": [{"er": ({"x": {1: {2**80}}},)}]},
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: repr(value)[:40])
def test_a_value_comes_back_with_its_type(value):
    """Types are restored at every depth, the order of dicts too."""
    assert same(back(value), value)
    assert SERDE.deserialize_many(SERDE.serialize_many([value, None]))[1] is None
    assert same(SERDE.deserialize_many(SERDE.serialize_many([value]))[0], value)


_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.timezones())
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.sampled_from([*Colour, Rights.READ, Level.LOW])
)


# Composites, because Hypothesis writes out whole strategies when it retries a draw.
@st.composite
def scalar(draw: st.DrawFn) -> Any:
    return draw(_scalars)


@st.composite
def hashable(draw: st.DrawFn, depth: int = 2) -> Any:
    if depth == 0 or draw(st.booleans()):
        return draw(scalar())
    items = draw(st.lists(hashable(depth - 1), max_size=3))
    return draw(st.sampled_from([tuple, frozenset]))(items)


scalars = scalar()
hashables = hashable()
values = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(hashables, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=3).map(OrderedDict)
        | st.lists(inner, max_size=3).map(deque)
        | st.builds(Point, inner, inner)
        | st.builds(Order, st.uuids(), st.lists(st.builds(Line, st.text(max_size=2), inner)))
    ),
    max_leaves=20,
)


@given(values)
def test_any_value_comes_back_equal_and_of_the_same_types(value):
    """Round trip: equality and exact type, nested, for everything that has an encoding."""
    try:
        data = SERDE.serialize(value)
    except SerdeError as error:  # lone surrogates cannot be, all else must have an encoding
        raise AssertionError(str(error)) from error
    assert same(SERDE.deserialize(data), value)


@given(st.dictionaries(hashables, scalars, max_size=5), st.randoms())
def test_equal_keys_are_equal_bytes(value, random):
    """With sorted keys neither the order of a dict nor that of a set shows."""
    serde = ValueSerde(CLASSES, sort_keys=True)
    items = list(value.items())
    random.shuffle(items)
    assert serde.serialize(dict(items)) == serde.serialize(value)


def test_sets_are_the_same_bytes_in_every_process():
    """The order of hashes differs from process to process; an epoch replayed must not."""
    program = (
        "from mustela.serdes.values import ValueSerde;"
        "print(ValueSerde().serialize({'a', 'b', 'c', 'd', ('e', 1)}).hex())"
    )
    root = str(Path(__file__).parents[3] / "src")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


class Text(str):
    __slots__ = ()


class NotNamed(NamedTuple):
    x: int


REFUSED: list[Any] = [
    pytest.param(object(), "value", "object", id="object"),
    pytest.param({"a": [1, object()]}, "value['a'][1]", "object", id="object inside"),
    ({"a": {"b": (1, {"c": Fraction(1, 2)})}}, "value['a']['b'][1]['c']", "fractions.Fraction"),
    pytest.param(lambda: 1, "value", "function", id="function"),
    ([Text("x")], "value[0]", "str"),
    ([1j], "value[0]", "complex"),
    (NotNamed(1), "value", "NotNamed"),
    (defaultdict(lambda: 0), "value", "factory"),
    ({"a": "\ud800"}, "value['a']", "surrogate"),
    (Order(UUID(int=1), [Line("a", object())]), "value.lines[0].price", "object"),  # pyright: ignore
    ({object: 1}, "value.key(type)", "type"),
]


@pytest.mark.parametrize(("value", "path", "told"), REFUSED, ids=lambda case: str(case)[:30])
def test_what_has_no_encoding_is_refused_with_its_place(value, path, told):
    """The error says where in the value, of what type, and how to mend it."""
    with pytest.raises(SerdeError) as caught:
        SERDE.serialize_many([1, value])
    error = caught.value
    assert error.fields["path"] == path
    assert error.fields["index"] == 1
    assert told in error.what
    assert "Materialized(value=" in str(error.fix)


def test_a_key_without_an_encoding_says_how_keys_get_one():
    """What helps the values of a store does not help the keys of a group."""
    keys = ValueSerde(sort_keys=True)
    with pytest.raises(SerdeError, match="a key has no encoding") as raised:
        keys.serialize(object())
    assert "key=" in str(raised.value.fix)
    with pytest.raises(SerdeError) as raised:
        keys.serialize(Windowed("a", 0, 10))
    assert "WindowedSerde(" in str(raised.value.fix)


def test_a_value_that_contains_itself_is_refused():
    """A cycle is an error, not a crash."""
    cycle: list[Any] = []
    cycle.append((cycle,))
    with pytest.raises(SerdeError, match="contains itself"):
        SERDE.serialize(cycle)


@pytest.mark.slow
def test_whatever_can_be_written_can_be_read():
    """Deep values are refused when they are written, not when the store is read."""
    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {(1,): v}):
        value: Any = 0
        written = 0
        for depth in range(1, 600):
            value = wrap(value)
            try:
                data = SERDE.serialize(value)
            except SerdeError:
                break
            SERDE.deserialize(data)
            written = depth
        assert written >= 50


def test_only_named_classes_are_made_from_bytes():
    """Bytes name a class; only what the topology names is ever looked up, nothing is imported."""
    data = SERDE.serialize(Point(1))
    with pytest.raises(SerdeError, match="not among the classes"):
        ValueSerde().deserialize(data)
    encode = msgspec.msgpack.encode
    for code in (17, 18):
        body = encode(["os:system", {"command": "true"}])
        with pytest.raises(SerdeError, match="not among the classes"):
            SERDE.deserialize(encode(msgspec.msgpack.Ext(code, body)))


class Boom:
    def __reduce__(self):
        return os._exit, (3,)


def test_pickles_are_never_loaded():
    """A pickle in a store's bytes is bytes of a wrong format, nothing more."""
    for body in (pickle.dumps(Boom()), pickle.dumps(Boom(), 0)):
        for code in range(-1, 20):
            data = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, body))
            try:
                SERDE.deserialize(data)
            except SerdeError:
                continue
        with pytest.raises(SerdeError):
            SERDE.deserialize(body)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_an_error_or_a_value(data):
    """No bytes raise anything but a SerdeError."""
    _, errors = SERDE.deserialize_each([None, data])
    assert [error.fields["index"] for error in errors] in ([], [1])


@given(st.integers(1, 18), st.binary(max_size=40), values)
def test_foreign_extensions_are_an_error_or_a_value(code, junk, value):
    """The bodies of extensions are checked as well."""
    for body in (junk, SERDE.serialize(value) or b""):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, body))
        _, errors = SERDE.deserialize_each([None, data])
        assert [error.fields["index"] for error in errors] in ([], [1])


@pytest.mark.parametrize("zone", ["Europe", "../../../etc/passwd", "", "/etc/passwd", "No/Where"])
def test_a_time_zone_that_is_none_is_an_error(zone):
    """A forged zone reads no file and raises nothing but the named error."""
    encode = msgspec.msgpack.encode
    data = encode(msgspec.msgpack.Ext(13, encode([2026, 1, 2, 0, 0, 0, 0, 0, zone])))
    with pytest.raises(SerdeError):
        SERDE.deserialize(data)


def test_fields_may_come_and_go():
    """A class may gain a field with a default and lose a field; stored values stay readable."""
    old = dataclasses.make_dataclass("Thing", [("a", int), ("gone", int)])
    new = dataclasses.make_dataclass("Thing", [("a", int), ("b", int, 5)])
    strict = dataclasses.make_dataclass("Thing", [("a", int), ("b", int)])
    for cls in (old, new, strict):
        cls.__module__ = "shop"
    data = ValueSerde([old]).serialize(old(1, 2))
    assert ValueSerde([new]).deserialize(data) == new(1)
    with pytest.raises(SerdeError):
        ValueSerde([strict]).deserialize(data)


def test_values_of_a_class_that_the_library_has_moved_are_read() -> None:
    """Their bytes say where it was; `Updated` was in ``mustela.topology.update``."""
    stored = bytes.fromhex(
        "c7341192bf6d757374656c612e746f706f6c6f67792e7570646174653a55706461746564"
        "83a36b6579a3616e6ea36f6c6403a36e657705"
    )
    read = ValueSerde((Updated,)).deserialize(stored)
    assert (type(read), read) == (Updated, Updated("ann", 3, 5))


def test_a_script_and_its_module_name_the_same_class():
    """``python app.py`` calls its module __main__; ``mustela run app:app`` does not."""
    script = dataclasses.make_dataclass("Thing", [("a", int)])
    module = dataclasses.make_dataclass("Thing", [("a", int)])
    script.__module__, module.__module__ = "__main__", "app"
    data = ValueSerde([script]).serialize(script(1))
    assert ValueSerde([module]).deserialize(data) == module(1)
    module.__module__ = "__main__"
    with pytest.raises(SerdeTypeError):
        ValueSerde([script, module])


def test_a_constructor_does_not_change_what_is_restored():
    """Fields are what was stored, also those that __post_init__ would compute again."""

    @dataclasses.dataclass
    class Doubling:
        x: int
        seen: int = dataclasses.field(init=False, default=0)

        def __post_init__(self):
            self.x *= 2

    value = Doubling(1)
    value.seen = 9
    restored = back(value, ValueSerde([Doubling]))
    assert (restored.x, restored.seen) == (2, 9)


def test_the_serde_is_a_value():
    """It survives pickle and is equal to one with the same classes."""
    copy = pickle.loads(pickle.dumps(SERDE))
    assert copy == SERDE
    assert hash(copy) == hash(SERDE)
    assert ValueSerde() != SERDE
    assert same(back(Point(1), copy), Point(1))


class Spot(NamedTuple):
    x: int
    y: int = 0


class Tint(enum.Enum):
    RED = 1


Spot.__module__ = Tint.__module__ = "shop"

GOLDEN: list[tuple[Any, str]] = [
    ({"a": 1}, "81a16101"),
    ([None, True, 1.5, b"x"], "94c0c3cb3ff8000000000000c40178"),
    ((1, 2), "c70301920102"),
    ({1}, "d5029101"),
    (frozenset(), "d40390"),
    ({(1,): 2}, "c707049192d501910102"),
    (2**64, "c70905010000000000000000"),
    (-(2**64), "c70905ff0000000000000000"),
    (bytearray(b"x"), "d40678"),
    (deque([1], maxlen=2), "c706079202d5019101"),
    (OrderedDict(a=1), "c705089192a16101"),
    (defaultdict(int, a=1), "c70d0992a3696e74c705049192a16101"),
    (Counter("aa"), "c7050a9192a16102"),
    (Decimal("1.5"), "c7030b312e35"),
    (UUID(int=7), "d80c00000000000000000000000000000007"),
    (datetime(2026, 1, 2, tzinfo=UTC), "c70d0d99cd07ea010200000000009100"),
    (
        datetime(2026, 1, 2, 3, tzinfo=ZoneInfo("Europe/Berlin")),
        "c7190d99cd07ea01020300000000ad4575726f70652f4265726c696e",
    ),
    (date(2026, 1, 2), "c7060e93cd07ea0102"),
    (time(1, 2, 3, 4), "c7070f960102030400c0"),
    (timedelta(days=1), "d61093010000"),
    (Spot(1, 2), "c7121192a973686f703a53706f7482a17801a17902"),
    (Tint.RED, "c70f1292a973686f703a54696e74a3524544"),
]


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=lambda case: repr(case)[:30])
def test_the_format_stays(value, expected):
    """Stores and changelogs of earlier versions must stay readable: these bytes never change."""
    serde = ValueSerde([Spot, Tint])
    assert serde.serialize(value) == bytes.fromhex(expected)
    assert same(serde.deserialize(bytes.fromhex(expected)), value)
