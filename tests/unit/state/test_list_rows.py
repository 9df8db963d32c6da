"""Lists as bytes, against a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.packed import EMPTY, append_packed, count_packed, pack_rows, unpacker
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

SEGMENT = 10

times = st.integers(0, 60)
values = st.one_of(st.none(), st.binary(max_size=3))
ops = st.lists(
    st.one_of(
        st.tuples(st.just("append"), keys, st.lists(st.tuples(times, values), max_size=4)),
        st.tuples(st.just("expire"), times),
        steps,
    ),
    max_size=30,
)


@given(st.lists(st.lists(st.integers(0, 1 << 40), max_size=40), max_size=5))
def test_appending_packed_rows_is_concatenation(parts):
    """Whatever the sizes are, also where the head of a msgpack array would change its length."""
    packed = None
    for part in parts:
        packed = append_packed(packed, part)
    rows = [row for part in parts for row in part]
    packed = packed or EMPTY
    assert unpacker(list[int])(packed) == rows
    assert packed == pack_rows(rows)
    assert count_packed(packed) == len(rows)


def test_long_arrays_keep_their_rows():
    """More rows than the shorter heads can count."""
    packed = append_packed(pack_rows(list(range(70_000))), [1, 2])
    assert len(unpacker(list[int])(packed)) == 70_002


@given(backends, ops, times, times, st.booleans())
def test_entries_are_those_of_a_list(backend, ops, low, high, in_chunks):
    """Over epochs, restores and expiry, reading gives what was appended, in order of time.

    Whether the changelog hears of each row or of many at once makes no difference.
    """
    model: dict[bytes, list[tuple[int, int, bytes | None, int]]] = {key: [] for key in KEYS}
    sequence = 0
    with world(backend, StoreSpec(name="j", kind="list", segment_ms=SEGMENT)) as epochs:
        for op in ops:
            rows = ListRows(epochs.view, segment_ms=SEGMENT)
            if in_chunks:
                epochs.view.log_in_chunks()
            match op:
                case "append", key, items:
                    more = [
                        (time, sequence + n, value, n % 3) for n, (time, value) in enumerate(items)
                    ]
                    sequence += len(more)
                    rows.append_many({key: more})
                    model[key] += more
                case "expire", bound:
                    rows.expire_before(bound)
                    for key, entries in model.items():
                        over = bound // SEGMENT * SEGMENT
                        model[key] = [entry for entry in entries if entry[0] >= over]
                case (step,):
                    epochs.step(step)
        rows = ListRows(epochs.view, segment_ms=SEGMENT)
        expected = {key: sorted(entries, key=lambda e: e[:1]) for key, entries in model.items()}
        wanted = [[e for e in expected[key] if low <= e[0] <= high] for key in KEYS]
        assert rows.read_many(KEYS, [low] * len(KEYS), [high] * len(KEYS)) == wanted
        whole = {key: [] for key in KEYS}
        for start, key, entries in rows.scan():
            assert all(start <= entry[0] < start + SEGMENT for entry in entries)
            whole[key] += entries
        assert whole == expected
        first = min((e[0] // SEGMENT * SEGMENT for es in model.values() for e in es), default=None)
        assert rows.first_segment() == first


def test_a_segment_can_be_written_anew():
    """An owner that changes flags writes the segment; no entries delete it."""
    with world("memory", StoreSpec(name="j", kind="list", segment_ms=SEGMENT)) as epochs:
        rows = ListRows(epochs.view, segment_ms=SEGMENT)
        rows.append_many({b"a": [(5, 0, b"x", 0)]})
        rows.replace(b"a", 0, [(5, 0, b"x", 1)])
        assert rows.read_many([b"a"], [0], [9]) == [[(5, 0, b"x", 1)]]
        rows.replace(b"a", 0, [])
        assert rows.first_segment() is None


def test_segments_that_are_over_leave_the_changelog_too():
    """A list's changelog is compacted only, so what goes must be said."""
    with world("memory", StoreSpec(name="j", kind="list", segment_ms=SEGMENT)) as epochs:
        ListRows(epochs.view, segment_ms=SEGMENT).append_many({b"a": [(5, 0, b"x", 0)]})
        epochs.commit()
        assert ListRows(epochs.view, segment_ms=SEGMENT).expire_before(10) == 1
        epochs.commit()
        assert epochs.log[-1][1] is None
