"""Stores of windows, sessions and versions as their users see them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.model import TIME_MAX, Windowed
from mustela.plan.keygroups import key_group
from mustela.serdes.resolve import resolve_serde
from mustela.state.faults import StoreError
from mustela.state.interfaces import Committed, StoreSpec
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.layout import SnapshotView
from mustela.state.kinds.session_store import SessionStore
from mustela.state.kinds.timed import ValueAndTimestamp
from mustela.state.kinds.versioned_store import VersionedKeyValueStore, VersionedRecord
from mustela.state.kinds.views import GroupViews, MergedView
from mustela.state.kinds.window_store import TimestampedWindowStore, WindowStore
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from tests.unit.state.environments import make_spec

GROUPS = 4
STR, INT = resolve_serde(str), resolve_serde(int)


def make_groups(spec: StoreSpec) -> GroupViews:
    views = {
        group: Overlay(MemoryEnvironment(make_spec(stores=(spec,))).snapshot(Committed())).store(
            spec.name
        )
        for group in range(GROUPS)
    }
    return GroupViews(views, lambda key: key_group(key, GROUPS))


def make_store(store_class, **options):
    chosen: dict[str, Any] = {"key_serde": STR, "value_serde": INT, **options}
    spec = StoreSpec(name="s", kind=store_class.kind, **chosen)
    return store_class(make_groups(spec), spec)


@pytest.fixture
def windows() -> WindowStore[str, int]:
    store = make_store(WindowStore, window_ms=10, retention_ms=50)
    for start in (0, 10, 20):
        for key in "abc":
            store.put(key, start + ord(key), start)
    return store


def test_windows_are_fetched_by_key_and_start(windows):
    """One start gives a value, two times give pairs; both ends are included."""
    assert windows.fetch("a", 10) == 107
    assert windows.fetch("a", 15) is None
    assert windows.get("a", 15, 0) == 0
    assert list(windows.fetch("a", 0, 10)) == [(0, 97), (10, 107)]
    assert list(windows.fetch("a", 10, None)) == [(10, 107), (20, 117)]
    assert list(windows.backward_fetch("a", 0, 10)) == [(10, 107), (0, 97)]
    assert list(windows.fetch("a", 20, 10)) == []
    moment = datetime(1970, 1, 1, 0, 0, 0, 10_000, tzinfo=UTC)
    assert windows.fetch("a", moment) == 107


def test_windows_of_several_keys_come_by_start_then_by_key(windows):
    """Whatever key group they are in."""
    starts_and_keys = [(0, "a"), (0, "b"), (0, "c"), (10, "a"), (10, "b"), (10, "c")]
    found = [(window.start, window.key) for window, _ in windows.fetch_all(0, 10)]
    assert found == starts_and_keys
    found = [(window.start, window.key) for window, _ in windows.backward_fetch_all(0, 10)]
    assert found == starts_and_keys[::-1]
    found = list(windows.fetch_range("b", None, 20, None))
    assert found == [(Windowed("b", 20, 30), 118), (Windowed("c", 20, 30), 119)]
    assert len(windows) == 9
    assert list(windows.backward_all()) == list(windows.all())[::-1]
    assert next(iter(windows)) == Windowed("a", 0, 10)


def test_a_window_store_is_a_mapping_of_key_and_start(windows):
    """Reading, writing and asking by (key, start)."""
    assert windows["a", 0] == 97
    windows["a", 0] = 1
    assert windows["a", 0] == 1
    assert ("a", 0) in windows
    assert ("z", 0) not in windows
    windows.put("a", None, 0)
    with pytest.raises(KeyError):
        windows["a", 0]


def test_windows_expire_and_are_not_put_too_late():
    """What starts at or below the newest start less the retention is gone."""
    store = make_store(WindowStore, window_ms=10, retention_ms=50)
    store.put("a", 1, 0)
    assert list(store.fetch("a", 0, None)) == [(0, 1)]
    store.put("a", 2, 50)
    assert list(store.fetch("a", 0, None)) == [(50, 2)]
    store.put("a", 3, 0)
    assert ("a", 0) not in store
    store.put("a", 4, 1)
    assert store["a", 1] == 4


def test_a_window_store_may_keep_duplicates():
    """Every value of a key and start, in the order in which they came; None adds nothing."""
    store = make_store(WindowStore, window_ms=10, duplicates=True)
    for value in (1, 2, None, 1):
        store.put("a", value, 0)
    assert list(store.fetch("a", 0, 0)) == [(0, 1), (0, 2), (0, 1)]
    assert [value for _, value in store.backward_fetch("a")] == [1, 2, 1]
    assert len(store) == 3
    store.put("a", 7, 0)
    assert store.fetch("a", 0) == 7  # the one that was put last


def test_none_in_a_store_of_duplicates_moves_no_time():
    """It is as if it had never been put, so nothing expires because of it."""
    store = make_store(WindowStore, window_ms=10, retention_ms=20, duplicates=True)
    store.put("a", 1, 0)
    store.put("a", None, 1_000)
    assert list(store.fetch("a", 0, None)) == [(0, 1)]


def test_timestamps_of_windows_show_where_they_are_asked_for():
    """A window store keeps them; a window without a length has no end."""
    store = make_store(TimestampedWindowStore)
    store.put("a", 1, 0, timestamp=7)
    store.put("b", 2, 0)
    assert store["a", 0] == ValueAndTimestamp(1, 7)
    assert store["b", 0] == ValueAndTimestamp(2, -1)
    assert next(store.all())[0] == Windowed("a", 0, TIME_MAX)
    assert bool(make_store(TimestampedWindowStore))


@pytest.fixture
def sessions() -> SessionStore[str, int]:
    store = make_store(SessionStore, retention_ms=100)
    for key in "abc":
        store.put(Windowed(key, 0, 10), 1)
        store.put(Windowed(key, 40, 60), 2)
    return store


def test_sessions_are_found_by_overlap(sessions):
    """Those that end at or behind the first time and begin at or before the second."""
    first, second = (Windowed("a", 0, 10), 1), (Windowed("a", 40, 60), 2)
    assert list(sessions.fetch("a")) == [first, second]
    assert list(sessions.backward_fetch("a")) == [second, first]
    assert list(sessions.find_sessions("a", 10, 39)) == [first]
    assert list(sessions.find_sessions("a", 11, 40)) == [second]
    assert list(sessions.find_sessions("a", 11, 39)) == []
    assert list(sessions.backward_find_sessions("a", 0, 60)) == [second, first]
    assert sessions.fetch_session("a", 0, 10) == 1
    assert sessions.fetch_session("a", 0, 11) is None
    assert sessions.fetch_session("a", 0, 11, 5) == 5


def test_sessions_of_several_keys_come_by_key(sessions):
    """Merged over key groups; both ends of a range are included."""
    assert [window.key for window, _ in sessions.all()] == list("aabbcc")
    assert [window.key for window, _ in sessions.fetch_range("b", None)] == list("bbcc")
    assert (
        list(sessions.backward_fetch_range("a", "b")) == list(sessions.fetch_range("a", "b"))[::-1]
    )
    assert [w.key for w, _ in sessions.find_sessions_range("a", "b", 11, 99)] == list("ab")
    assert [w[1:] for w, _ in sessions.backward_find_sessions_range("a", "a")] == [
        (40, 60),
        (0, 10),
    ]
    assert [w.key for w, _ in sessions.find_sessions_ending(0, 10)] == list("abc")


def test_a_session_store_is_a_mapping_of_sessions(sessions):
    """A session is named by key, start and end."""
    session = Windowed("a", 0, 10)
    assert sessions[session] == 1
    sessions[session] = 3
    assert sessions[session] == 3
    assert sessions.get(session) == sessions.get(session, 9) == 3
    del sessions[session]
    assert sessions.get(session) is None
    assert sessions.get(session, 9) == 9
    assert session not in sessions
    with pytest.raises(KeyError):
        sessions[session]
    with pytest.raises(KeyError):
        del sessions[session]
    assert len(sessions) == 5
    sessions.put(Windowed("a", 40, 60), None)
    assert [window.key for window in sessions] == list("bbcc")


def test_sessions_expire_and_are_not_put_too_late(sessions):
    """What ended at or before the newest end less the retention is gone, group by group."""
    sessions.put(Windowed("a", 110, 110), 3)
    assert list(sessions.fetch("a")) == [(Windowed("a", 40, 60), 2), (Windowed("a", 110, 110), 3)]
    sessions.put(Windowed("a", 5, 10), 4)
    assert Windowed("a", 5, 10) not in sessions


def test_versions_are_read_as_of_a_moment():
    """The newest by default; deletions are versions; too old puts are refused."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=100)
    assert store.put("a", 1, 10) == -1
    assert store.put("a", 2, 50) == -1
    assert store.put("a", 3, 30) == 50
    assert store["a"] == VersionedRecord(2, 50)
    assert store.get("a", as_of=40) == VersionedRecord(3, 30, 50)
    assert store.get("a", as_of=9) is None
    assert store.get("b", 0) == 0
    assert store.delete("a", 45) == VersionedRecord(3, 30, 50)
    assert store.get("a", as_of=47) is None
    assert list(store.versions("a")) == [
        VersionedRecord(1, 10, 30),
        VersionedRecord(3, 30, 45),
        VersionedRecord(2, 50),
    ]
    assert [version.value for version in store.versions("a", 30, 49, reverse=True)] == [3]
    assert store.put("a", 9, 500) == -1
    assert store.put("a", 1, 399) < -1
    assert store.put("a", 1, 400) == 500
    assert store.delete("a", 399) is None
    with pytest.raises(KeyError):
        store["b"]


def test_what_was_over_before_the_history_is_no_version():
    """A version that goes on into the history is, and is found from there on alone."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=10)
    for value, time in [(1, 0), (2, 95), (3, 100)]:
        store.put("a", value, time)
    assert list(store.versions("a", 0, 89)) == []
    assert [version.value for version in store.versions("a", 0, 90)] == [1]
    assert [version.value for version in store.versions("a")] == [1, 2, 3]


def test_a_deletion_at_the_time_of_its_version_holds():
    """An older version that comes later is history, and does not bring the key back."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=100)
    store.put("a", 1, 50)
    store.put("a", None, 50)
    assert store.put("a", 2, 40) == 50
    assert store.get("a") is None
    assert store.get("a", as_of=45) == VersionedRecord(2, 40, 50)


def add(more: int) -> Callable[[int | None], int | None]:
    return lambda old: (old or 0) + more


def fail(_old: int | None) -> int | None:
    raise KeyError(7)


def test_a_window_is_read_and_changed_at_once(windows):
    """What is there or not; None deletes, an error changes nothing, an expired window is none."""
    assert windows.compute("a", add(3), 10) == windows.fetch("a", 10) == 110
    assert windows.compute("z", add(3), 10) == 3
    assert windows.merge("a", 5, max, 10) == 110
    assert windows.merge("y", 5, max, 10) == 5
    assert windows.put_if_absent("y", 9, 10) == 5
    assert windows.put_if_absent("x", 9, 10) is None
    assert windows.delete("x", 10) == 9
    assert windows.delete("x", 10) is None
    assert windows.compute("y", lambda _old: None, 10) is None
    assert ("y", 10) not in windows
    with pytest.raises(KeyError):
        windows.compute("a", fail, 10)
    assert windows.fetch("a", 10) == 110
    windows.put("a", 1, 100)
    assert windows.compute("a", add(3), 10) == 3
    assert windows.fetch("a", 10) is None


def test_a_window_with_its_time_is_read_and_changed_at_once():
    store = make_store(TimestampedWindowStore, window_ms=10)
    assert store.compute("a", add(3), 10, timestamp=12) == 3
    assert store.merge("a", 4, int.__add__, 10, timestamp=13) == 7
    assert store.put_if_absent("a", 1, 10, timestamp=14) == ValueAndTimestamp(7, 13)
    assert store.put_if_absent("b", 1, 10, timestamp=14) is None
    assert store.fetch("b", 10) == ValueAndTimestamp(1, 14)
    assert store.delete("a", 10) == ValueAndTimestamp(7, 13)
    assert store.delete("a", 10) is None


@pytest.mark.parametrize("method", ["compute", "merge", "put_if_absent", "delete"])
def test_several_values_of_a_window_are_not_changed_at_once(method: str):
    """It is not said which of them is meant."""
    store = make_store(WindowStore, window_ms=10, duplicates=True)
    given = {"compute": (add(1), 0), "merge": (1, max, 0), "put_if_absent": (1, 0), "delete": (0,)}
    with pytest.raises(StoreError, match="keeps several"):
        getattr(store, method)("a", *given[method])


def test_a_session_is_read_and_changed_at_once(sessions):
    """The one with these ends, whatever others of the key meet it."""
    before = list(sessions.all())
    session = Windowed("z", 3, 9)
    assert sessions.compute(session, add(3)) == sessions.fetch_session("z", 3, 9) == 3
    assert sessions.merge(session, 9, max) == 9
    assert sessions.merge(Windowed("z", 3, 10), 9, max) == 9
    assert sessions.put_if_absent(session, 1) == 9
    with pytest.raises(KeyError):
        sessions.compute(session, fail)
    assert sessions.delete(session) == 9
    assert sessions.delete(session) is None
    assert sessions.compute(Windowed("z", 3, 10), lambda _old: None) is None
    assert sessions.put_if_absent(session, 1) is None
    sessions.remove(session)
    assert list(sessions.all()) == before


def test_a_version_is_made_of_the_one_that_held():
    """In the midst of the history too: later versions stay."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=100)
    store.put("a", 1, 10)
    store.put("a", 5, 50)
    assert store.compute("a", add(1), 30) == 2
    assert [(v.value, v.timestamp, v.valid_to) for v in store.versions("a")] == [
        (1, 10, 30),
        (2, 30, 50),
        (5, 50, None),
    ]
    assert store.merge("a", 7, max, 60) == 7
    assert store.merge("b", 7, max, 60) == 7
    assert store.put_if_absent("a", 9, 5) is None
    assert store.put_if_absent("a", 9, 55) == VersionedRecord(5, 50, 60)
    with pytest.raises(KeyError):
        store.compute("a", fail, 70)
    assert store.compute("a", lambda _old: None, 80) is None
    assert store.get("a") is None


def test_a_version_of_the_past_knows_when_it_ended():
    """By the next one or by a deletion; the newest one has no end."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=100)
    store.put("a", 1, 10)
    store.put("a", 2, 30)
    store.delete("a", 50)
    store.put("a", 3, 70)
    found = [store.get("a", as_of=when) for when in (29, 49, 60, 70)]
    assert found == [
        VersionedRecord(1, 10, 30),
        VersionedRecord(2, 30, 50),
        None,
        VersionedRecord(3, 70, None),
    ]


def test_the_newest_versions_can_be_listed():
    """Over key groups in the order of keys, without deleted keys."""
    store = make_store(VersionedKeyValueStore, history_retention_ms=100)
    for number, key in enumerate("edcba"):
        store.put(key, number, 10)
    store.delete("c", 20)
    assert list(store) == list("abde")
    assert len(store) == 4
    assert "c" not in store
    assert "a" in store
    assert store.get_many(["a", "c"]) == [VersionedRecord(4, 10), None]
    assert [version.value for _, version in store.all()] == [4, 3, 1, 0]


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9)), st.text(max_size=2))
def test_key_groups_are_merged_in_key_order(model, text):
    """A key-value store over several key groups is one map in the order of its keys' bytes."""
    spec = StoreSpec(name="s", kind="key_value", key_serde=STR, value_serde=INT)
    store = KeyValueStore(MergedView(make_groups(spec)), spec)
    store.put_all(model.items())
    expected = sorted(model.items(), key=lambda row: row[0].encode())
    assert list(store.all()) == expected
    assert list(store.reverse_all()) == expected[::-1]
    assert list(store.prefix_scan(text)) == [row for row in expected if row[0].startswith(text)]
    low = text.encode()
    assert list(store.range(text)) == [row for row in expected if row[0].encode() >= low]
    assert store.get_many(list(model)) == list(model.values())
    assert len(store) == len(model)


@pytest.mark.parametrize("store_class", [WindowStore, SessionStore, VersionedKeyValueStore])
def test_a_handle_is_for_its_kind_of_store(store_class):
    """Another kind is refused by name, and so is None as a key."""
    spec = StoreSpec(name="s", kind="key_value")
    with pytest.raises(StoreError, match="is a key_value store"):
        store_class(make_groups(spec), spec)
    store = make_store(store_class, history_retention_ms=10)
    with pytest.raises(StoreError, match="None as a key"):
        {
            WindowStore: lambda: store.fetch(None, 0),
            SessionStore: lambda: list(store.fetch(None)),
            VersionedKeyValueStore: lambda: store.get(None),
        }[store_class]()


def test_a_moment_needs_a_time_zone(windows):
    """What 12 o'clock means depends on where one is."""
    with pytest.raises(StoreError, match="no time zone"):
        windows.fetch("a", datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


def test_a_snapshot_can_only_be_read():
    """A query shows what is committed and changes nothing."""
    spec = StoreSpec(name="s", kind="window", window_ms=10)
    environment = MemoryEnvironment(make_spec(stores=(spec,)))
    view = SnapshotView(environment.snapshot(Committed()), "s")
    store: WindowStore[str, int] = WindowStore(GroupViews({0: view}, lambda _key: 0), spec)
    assert list(store.all()) == []
    assert store.fetch("a", 0) is None
    with pytest.raises(StoreError, match="only be read"):
        store.put("a", 1, 0)
    with pytest.raises(StoreError, match="only be read"):
        view.put_many({})
    with pytest.raises(StoreError, match="only be read"):
        view.expire([])
    assert view.count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "window", "retention_ms": -1}, "negative span"),
        ({"kind": "list"}, "no segment_ms"),
        ({"kind": "list", "segment_ms": 0}, "without length"),
        ({"kind": "versioned"}, "no history_retention_ms"),
        ({"kind": "session", "duplicates": True}, "options of window stores"),
        ({"kind": "window", "max_entries": 5}, "max_entries"),
        ({"kind": "key_value", "max_entries": 0}, "max_entries"),
    ],
)
def test_a_specification_that_cannot_be_is_refused(options, message):
    """Before anything runs."""
    with pytest.raises(StoreError, match=message):
        StoreSpec(name="s", **options)
