"""Windows as bytes, against a dict."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import STREAM_TIME
from mustela.state.kinds.window import WindowRows, split_window_key, window_key, window_keys
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

times = st.integers(-3, 40)
ops = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, times, st.one_of(st.none(), st.binary(max_size=3))),
        st.tuples(st.just("expire"), times),
        steps,
    ),
    max_size=30,
)


def test_keys_are_in_the_order_of_time_then_of_key():
    """Bytes order as (start, key) does, and hold both."""
    pairs = [(-(1 << 40), b"z"), (-1, b""), (0, b"a"), (0, b"b"), (1, b""), (1 << 62, b"a")]
    stored = [window_key(*pair) for pair in pairs]
    assert stored == sorted(stored)
    assert [split_window_key(key) for key in stored] == pairs
    assert window_keys([start for start, _ in pairs], [key for _, key in pairs]) == stored
    assert min(stored) > STREAM_TIME


@given(backends, st.booleans(), ops, times, times)
def test_windows_are_those_of_a_dict(backend, indexed, ops, low, high):
    """Over epochs, restores and expiry, each way of reading agrees with the model."""
    spec = StoreSpec(name="w", kind="window", indexed=indexed)
    model: dict[tuple[int, bytes], bytes] = {}
    bound = -10
    with world(backend, spec) as epochs:
        epochs.view.put(STREAM_TIME, b"time")
        for op in ops:
            rows = WindowRows(epochs.view, indexed=indexed)
            match op:
                case "put", key, start, row if start >= bound:
                    rows.put(key, start, row)
                    model.pop((start, key), None)
                    if row is not None:
                        model[start, key] = row
                case "expire", now:
                    bound = max(bound, now)
                    gone = [place for place in model if place[0] < bound]
                    assert rows.expire_before(bound) >= len(gone)
                    for place in gone:
                        del model[place]
                case (step,):
                    epochs.step(step)
                    WindowRows(epochs.view, indexed=indexed).expire_before(bound)
                case _:
                    pass
        rows = WindowRows(epochs.view, indexed=indexed)
        expected = sorted((*place, row) for place, row in model.items())
        assert list(rows.scan()) == expected
        assert list(rows.scan(reverse=True)) == expected[::-1]
        inside = [row for row in expected if low <= row[0] <= high]
        assert list(rows.scan(low, high)) == inside
        assert rows.first_start() == (expected[0][0] if expected else None)
        for key in KEYS:
            mine = [(start, row) for start, other, row in expected if other == key]
            assert rows.fetch(key) == mine
            wanted = [pair for pair in mine if low <= pair[0] <= high]
            assert rows.fetch(key, low, high) == wanted
            assert rows.fetch(key, low, high, reverse=True) == wanted[::-1]
            if indexed:
                assert rows.fetch_many([key], [low], [high]) == [wanted]
        places = list(model)
        found = rows.getmulti([key for _, key in places], [start for start, _ in places])
        assert found == list(model.values())
        assert epochs.view.get(STREAM_TIME) == b"time"


def test_expiry_says_nothing_to_the_changelog():
    """Rows that are over leave the store alone; a restored store has them until it drops them."""
    with world("memory", StoreSpec(name="w", kind="window")) as epochs:
        WindowRows(epochs.view).put_many([b"a", b"a"], [0, 10], [b"1", b"2"])
        epochs.commit()
        assert WindowRows(epochs.view).expire_before(10) == 1
        epochs.commit()
        assert WindowRows(epochs.view).fetch(b"a") == [(10, b"2")]
        assert [key for key, _ in epochs.log] == [window_key(0, b"a"), window_key(10, b"a")]
        epochs.restore()
        assert WindowRows(epochs.view).expire_before(10) == 1


def test_a_window_that_is_put_again_after_its_expiry_is_logged():
    """Only what stays gone is silent."""
    with world("memory", StoreSpec(name="w", kind="window")) as epochs:
        WindowRows(epochs.view).put(b"a", 0, b"1")
        epochs.commit()
        WindowRows(epochs.view).expire_before(10)
        WindowRows(epochs.view).put(b"a", 0, b"2")
        epochs.commit()
        assert epochs.log[-1] == (window_key(0, b"a"), b"2")


def test_an_index_forgets_keys_whose_windows_are_all_over():
    """What is left is what the windows that are left need."""
    with world("memory", StoreSpec(name="w", kind="window", indexed=True)) as epochs:
        rows = WindowRows(epochs.view, indexed=True)
        rows.put_many([b"a", b"b", b"b"], [0, 0, 20], [b"1", b"2", b"3"])
        rows.expire_before(10)
        assert rows.starts_of([b"a"]) == [[]]
        assert rows.fetch(b"b") == [(20, b"3")]
        assert epochs.view.count() == 2


@pytest.mark.parametrize("indexed", [False, True])
def test_fetching_many_keys_reads_the_store_twice_at_most(indexed):
    """No read for each key: that is what the layout is for."""
    with world("memory", StoreSpec(name="w", kind="window", indexed=indexed)) as epochs:
        names = [b"k%d" % number for number in range(50)]
        rows = WindowRows(epochs.view, indexed=indexed)
        rows.put_many(names, [7] * 50, [b"v"] * 50)
        epochs.commit()
        calls = []
        snapshot = epochs.view._snapshot
        getmulti = snapshot.getmulti

        def counted(store, keys):
            calls.append(len(keys))
            return getmulti(store, keys)

        snapshot.getmulti = counted
        rows = WindowRows(epochs.view, indexed=indexed)
        if indexed:
            found = rows.fetch_many(names, [0] * 50, [9] * 50)
            assert found == [[(7, b"v")]] * 50
            assert calls == [50, 50]
        else:
            assert rows.getmulti(names, [7] * 50) == [b"v"] * 50
            assert calls == [50]
