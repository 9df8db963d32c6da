"""Sessions as bytes, against a dict."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import KEY_ROW, STREAM_TIME
from mustela.state.kinds.session import SessionRows
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

SPEC = StoreSpec(name="v", kind="session")

times = st.integers(0, 40)
ops = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, times, times, st.one_of(st.none(), st.binary(max_size=3))),
        st.tuples(st.just("expire"), times),
        st.tuples(st.just("settle"), times, times),
        steps,
    ),
    max_size=30,
)


def by_end(session):
    return session[1], session[0]


AT_THE_BOUND = [("put", b"a", 0, 5, b"1"), ("put", b"a", 7, 10, b"2"), ("settle", 10, 0)]
"""One session has ended, another one of the same key ends at the bound itself."""


@given(backends, ops, times, times)
@example("memory", AT_THE_BOUND, 0, 0)
def test_sessions_are_those_of_a_dict(backend, ops, low, high):
    """Over epochs, restores and expiry, each way of reading agrees with the model."""
    model: dict[bytes, dict[tuple[int, int], bytes]] = {key: {} for key in KEYS}
    bound = 0
    with world(backend, SPEC) as epochs:
        epochs.view.put(STREAM_TIME, b"time")
        for op in ops:
            rows = SessionRows(epochs.view)
            match op:
                case "put", key, start, end, row if end >= bound:
                    start, end = min(start, end), max(start, end)
                    rows.put(key, start, end, row)
                    model[key].pop((start, end), None)
                    if row is not None:
                        model[key][start, end] = row
                case "expire", now:
                    bound = max(bound, now)
                    assert rows.expire_before(bound) == dropped(model, bound)
                case "settle", now, floor:
                    bound = max(bound, floor)
                    ended = ended_by(model, now)
                    dropped(model, bound)
                    assert sorted(rows.settle(now, bound)) == ended
                case (step,):
                    epochs.step(step)
                    SessionRows(epochs.view).expire_before(bound)
                case _:
                    pass
        agrees(epochs, model, low, high)


def ended_by(model, bound):
    """The sessions that end below a time."""
    return sorted(
        (key, *place, row)
        for key, sessions in model.items()
        for place, row in sessions.items()
        if place[1] < bound
    )


def dropped(model, bound):
    """Forget the sessions that end below a time; return how many there were."""
    gone = ended_by(model, bound)
    for key, start, end, _ in gone:
        del model[key][start, end]
    return len(gone)


def agrees(epochs, model, low, high):
    """Compare each way of reading with the model."""
    rows = SessionRows(epochs.view)
    expected = {
        key: sorted(((*place, row) for place, row in sessions.items()), key=by_end)
        for key, sessions in model.items()
    }
    assert rows.load_many(KEYS) == [expected[key] for key in KEYS]
    scanned = [(key, expected[key]) for key in sorted(KEYS) if expected[key]]
    assert list(rows.scan()) == scanned
    assert list(rows.scan(reverse=True)) == scanned[::-1]
    assert list(rows.scan(b"a", b"ab")) == [row for row in scanned if b"a" <= row[0] <= b"ab"]
    ends = [(key, *session) for key, sessions in expected.items() for session in sessions]
    ends.sort(key=lambda session: (session[2], session[0], session[1]))
    assert list(rows.ending()) == ends
    assert list(rows.ending(low, high)) == [s for s in ends if low <= s[2] <= high]
    due = rows.first_due()
    assert (due is None) is (not ends)
    assert due is None or due <= ends[0][2]
    for key in KEYS:
        found = [s for s in expected[key] if s[1] >= low and s[0] <= high]
        assert rows.find(key, low, high) == found
        assert rows.find(key, low, high, reverse=True) == found[::-1]
        for start, end, row in expected[key]:
            assert rows.get(key, start, end) == row
        assert rows.get(key, 99, 100) is None
    assert epochs.view.get(STREAM_TIME) == b"time"


def test_a_session_that_grows_is_one_row_each_time():
    """The due time stays where it is while a session goes on."""
    with world("memory", SPEC) as epochs:
        SessionRows(epochs.view).save_many({b"a": [(0, 0, b"1")]})
        epochs.commit()
        assert len(epochs.log) == 2
        for end in range(1, 6):
            SessionRows(epochs.view).save_many({b"a": [(0, end, b"1")]})
            epochs.commit()
        assert [key for key, _ in epochs.log[2:]] == [KEY_ROW + b"a"] * 5
        SessionRows(epochs.view).settle(3)
        assert SessionRows(epochs.view).first_due() == 5


def test_sessions_that_are_over_leave_the_changelog_too():
    """It is compacted only: a session and its due time must not be lost apart from each other."""
    with world("memory", SPEC) as epochs:
        SessionRows(epochs.view).put(b"a", 0, 5, b"1")
        epochs.commit()
        assert SessionRows(epochs.view).expire_before(10) == 1
        epochs.commit()
        assert set(dict(epochs.log).values()) == {None}
        SessionRows(epochs.view).put(b"a", 20, 30, b"2")
        epochs.restore()
        assert list(SessionRows(epochs.view).ending()) == [(b"a", 20, 30, b"2")]
