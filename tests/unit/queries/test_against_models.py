"""Stores of each kind, read from outside, against models in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from hypothesis import given, strategies as st

from mustela import StreamsBuilder, TopologyTestDriver, Windowed
from mustela.model import Record
from mustela.processors import ContextualProcessor
from mustela.stores import StoreBuilder, Stores

KEYS = st.text("ab\u00e9", max_size=3)
VALUES = st.integers(0, 9)
TIMES = st.integers(0, 30).map(lambda n: n * 10)
LONG = timedelta(days=1)


class Put(ContextualProcessor[str, list[Any], None, None]):
    """Puts a row into the store; the record's key says in which key group it is run."""

    def process(self, record: Record[str, list[Any]]) -> None:
        """Call ``put`` with what the record says."""
        store: Any = self.context.state_store("store")
        key, value, *rest = record.value
        if rest and store.spec.kind == "session":
            store.put(Windowed(key, *rest), value)
        else:
            store.put(key, value, *rest)


@contextmanager
def stored(store: StoreBuilder, rows: list[tuple[Any, ...]], *, far: bool) -> Iterator[Any]:
    """Put rows in a few epochs; with ``far``, in key groups other than those of their keys."""
    builder = StreamsBuilder()
    builder.add_state_store(store)
    stream = builder.stream("rows", key=str, value=list)
    stream.process(Put, stores=["store"], name="put")
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        topic: Any = driver.create_input_topic("rows")
        for at in range(0, len(rows), 7):
            with driver.epoch():
                for number, (key, *rest) in enumerate(rows[at : at + 7], start=at):
                    topic.pipe_input(str(number) if far else key, [key, *rest])
        yield driver


@given(st.lists(st.tuples(KEYS, VALUES | st.none()), max_size=40), KEYS, KEYS, st.booleans())
def test_a_key_value_store_is_a_sorted_dict(
    rows: list[tuple[str, int | None]], low: str, high: str, far: bool
) -> None:
    """Gets, ranges, prefixes and counts, of a snapshot and of the newest epoch."""
    if far:  # then several key groups may hold a key, and the newest row is not known
        rows = [*{key: (key, value) for key, value in rows}.values()]
    made = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("store"), key=str, value=int
    )
    model = {key: value for key, value in dict(rows).items() if value is not None}
    order = sorted(model.items(), key=lambda row: row[0].encode())
    between = [row for row in order if low.encode() <= row[0].encode() <= high.encode()]
    with stored(made, rows, far=far) as driver, driver.snapshot() as snapshot:
        for store in (driver.store("store"), snapshot.store("store")):
            assert list(store.items()) == order
            assert list(store.reverse_all()) == order[::-1]
            assert list(store.range(low, high)) == between
            assert list(store.reverse_range(low, high)) == between[::-1]
            prefixed = [row for row in order if row[0].startswith(low)]
            assert list(store.prefix_scan(low)) == prefixed
            assert list(store.reverse_prefix_scan(low)) == prefixed[::-1]
            assert len(store) == len(model)
            wanted = [low, high, "x", *model]
            assert store.get_many(wanted) == [model.get(key) for key in wanted]
            assert [store.get(key) for key in wanted] == [model.get(key) for key in wanted]
            assert [key in store for key in wanted] == [key in model for key in wanted]


@given(st.lists(st.tuples(KEYS, VALUES | st.none(), TIMES), max_size=40), KEYS, TIMES)
def test_a_versioned_store_knows_each_moment(
    rows: list[tuple[str, int | None, int]], key: str, moment: int
) -> None:
    """The newest versions of all keys in order, and those as of a moment."""
    made = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("store", LONG), key=str, value=int
    )
    model: dict[str, dict[int, int | None]] = {}
    for name, value, time in rows:
        model.setdefault(name, {})[time] = value

    def as_of(name: str, time: int) -> int | None:
        known = {at: value for at, value in model.get(name, {}).items() if at <= time}
        return known[max(known)] if known else None

    newest = {name: as_of(name, 1_000) for name in model}
    with stored(made, rows, far=False) as driver:
        store = driver.store("store")
        found = [(name, version.value) for name, version in store.all()]
        order = sorted(newest.items(), key=lambda row: row[0].encode())
        there = [row for row in order if row[1] is not None]
        assert found == there
        low, high = sorted([key, "b"], key=str.encode)
        some = [row for row in there if low.encode() <= row[0].encode() <= high.encode()]
        begun = [row for row in there if row[0].startswith(key)]
        for rows_of, wanted in (
            (store.range(low, high), some),
            (store.reverse_range(low, high), some[::-1]),
            (store.prefix_scan(key), begun),
            (store.reverse_prefix_scan(key), begun[::-1]),
        ):
            assert [(name, version.value) for name, version in rows_of] == wanted
        assert [(name, version.timestamp, version.value) for name, version in store.history()] == [
            (name, at, value)
            for name, _ in order
            for at, value in sorted(model[name].items())
            if value is not None
        ]
        for name in {key, *model}:
            version = store.get(name, as_of=moment)
            assert (version and version.value) == as_of(name, moment)
            values = [version.value for version in store.versions(name)]
            times = sorted(model.get(name, {}).items())
            assert values == [value for _, value in times if value is not None]


@given(st.lists(st.tuples(KEYS, VALUES | st.none(), TIMES), max_size=40), KEYS, KEYS, TIMES, TIMES)
def test_a_window_store_is_a_dict_by_start_and_key(
    rows: list[tuple[str, int | None, int]], low: str, high: str, first: int, last: int
) -> None:
    """Windows of one key, of several and of all, forwards and backwards."""
    supplier = Stores.persistent_window_store("store", LONG, timedelta(milliseconds=10))
    made = Stores.window_store_builder(supplier, key=str, value=int)
    model: dict[tuple[int, str], int] = {}
    for key, value, start in rows:
        model.pop((start, key), None)
        if value is not None:
            model[start, key] = value
    order = sorted(model.items(), key=lambda row: (row[0][0], row[0][1].encode()))
    with stored(made, rows, far=False) as driver:
        store = driver.store("store")

        def placed(found: Any) -> list[Any]:
            return [((window.start, window.key), value) for window, value in found]

        assert placed(store.all()) == order
        assert placed(store.backward_all()) == order[::-1]
        timely = [row for row in order if first <= row[0][0] <= last]
        assert placed(store.fetch_all(first, last)) == timely
        assert placed(store.backward_fetch_all(first, last)) == timely[::-1]
        some = [row for row in timely if low.encode() <= row[0][1].encode() <= high.encode()]
        assert placed(store.fetch_range(low, high, first, last)) == some
        own = [(start, value) for (start, key), value in timely if key == low]
        assert list(store.fetch(low, first, last)) == own
        assert list(store.backward_fetch(low, first, last)) == own[::-1]
        assert store.fetch(low, first) == model.get((first, low))
        assert ((low, first) in store) == ((first, low) in model)
        assert len(store) == len(model)


@given(st.lists(st.tuples(KEYS, VALUES | st.none(), TIMES, TIMES), max_size=30), KEYS, TIMES, TIMES)
def test_a_session_store_is_a_dict_by_key_and_ends(
    rows: list[tuple[str, int | None, int, int]], key: str, first: int, last: int
) -> None:
    """Sessions of one key and of all, those that end late enough and begin early enough."""
    supplier = Stores.persistent_session_store("store", LONG)
    made = Stores.session_store_builder(supplier, key=str, value=int)
    given_rows = [(name, value, min(ends), max(ends)) for name, value, *ends in rows]
    model: dict[tuple[str, int, int], int] = {}
    for name, value, start, end in given_rows:
        model.pop((name, start, end), None)
        if value is not None:
            model[name, start, end] = value
    order = sorted(model.items(), key=lambda row: (row[0][0].encode(), row[0][2], row[0][1]))
    with stored(made, given_rows, far=False) as driver:
        store = driver.store("store")

        def placed(found: Any) -> list[Any]:
            return [((session.key, session.start, session.end), v) for session, v in found]

        assert placed(store.all()) == order
        assert placed(store.fetch(key)) == [row for row in order if row[0][0] == key]
        met = [row for row in order if row[0][2] >= first and row[0][1] <= last]
        assert placed(store.find_sessions_range(None, None, first, last)) == met
        own = [row for row in met if row[0][0] == key]
        assert placed(store.find_sessions(key, first, last)) == own
        assert placed(store.backward_find_sessions(key, first, last)) == own[::-1]
        for (name, start, end), value in order:
            assert store.fetch_session(name, start, end) == value
            assert store[Windowed(name, start, end)] == value
        assert store.fetch_session(key, 1, 2) is None
        assert len(store) == len(model)
