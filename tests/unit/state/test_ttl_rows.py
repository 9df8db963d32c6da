"""Rows that are kept for a time, as bytes, against a dict."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import STREAM_TIME
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.kinds.ttl import TtlView
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

SPEC = StoreSpec(name="s", ttl_ms=10)
times = st.integers(0, 30)


@given(
    backends,
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.lists(st.tuples(keys, st.none() | times), max_size=4)),
            st.tuples(st.just("take"), keys),
            st.tuples(st.just("sweep"), times, st.none() | st.integers(1, 3)),
            steps,
        ),
        max_size=25,
    ),
    times,
)
def test_rows_are_those_of_a_dict_with_times(backend, ops, now):
    """However often they are written, with later and earlier times, and looked through in parts."""
    model: dict[bytes, int] = {}
    with world(backend, SPEC) as epochs:
        epochs.view.put(STREAM_TIME, b"time")
        for op in ops:
            rows = TtlView(epochs.view, SPEC)
            match op:
                case "put", changes:
                    for key, time in changes:
                        row = None if time is None else pack_timestamped(b"v", time)
                        rows.put(key, row)
                        model.pop(key, None)
                        if time is not None:
                            model[key] = time
                case "take", key:
                    gone = [(one.key, one.time) for one in rows.take([key])]
                    assert gone == ([(key, model.pop(key))] if key in model else [])
                case "sweep", until, most:
                    gone = {one.key: one.time for one in rows.take_until(until, most=most)}
                    over = {key: time for key, time in model.items() if time <= until}
                    assert gone.items() <= over.items()
                    assert most is not None or gone == over
                    for key in gone:
                        del model[key]
                case (step,):
                    epochs.step(step)
        rows = TtlView(epochs.view, SPEC)
        stored = {key: pack_timestamped(b"v", time) for key, time in model.items()}
        assert list(rows.range()) == sorted(stored.items())
        assert list(rows.range(reverse=True)) == sorted(stored.items(), reverse=True)
        assert rows.getmulti(KEYS) == [stored.get(key) for key in KEYS]
        assert rows.times_of(KEYS) == [model.get(key) for key in KEYS]
        assert rows.count() == len(model)
        first = rows.first_time()
        assert first is None if not model else first is not None and first <= min(model.values())
        rows.clock.now = lambda: now
        seen = {key: row for key, row in stored.items() if model[key] + 10 > now}
        assert list(rows.range()) == sorted(seen.items())
        assert [rows.get(key) for key in KEYS] == [seen.get(key) for key in KEYS]
        assert rows.count() == len(seen)
        rows.clock.now = None
        rows.take_until(40)
        assert [key for key, _ in epochs.view.range()] == [STREAM_TIME]
