"""Lists as bytes, against a list."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from operator import add, itemgetter

import pytest
from hypothesis import given, strategies as st

from mustela.compiled import form
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds import list as list_rows, list_blocks, list_bytes
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.list_blocks import BLOCK, BLOCK_BYTES_MAX, SETTLED, unpack_block
from mustela.state.kinds.list_bytes import SEALED
from mustela.state.kinds.packed import EMPTY, append_packed, count_packed, pack_rows, unpacker
from mustela.state.overlay import StoreOverlay
from tests.unit.state.epochs import KEYS, Epochs, backends, keys, steps, world

SEGMENT = 10
SPEC = StoreSpec(name="j", kind="list", segment_ms=SEGMENT)
WIDE = StoreSpec(name="j", kind="list", segment_ms=160)

times = st.integers(0, 60)
values = st.binary(max_size=3)
ops = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.lists(st.tuples(keys, times, values), min_size=1, max_size=6)
        ),
        st.tuples(
            st.just("read"),
            st.lists(st.tuples(keys, times, st.integers(-2, SEGMENT)), min_size=1, max_size=4),
        ),
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


@st.composite
def regimes(draw: st.DrawFn) -> dict[str, int]:
    """Bounds that make blocks small, lists short, and settling frequent or rare."""
    return {
        "BLOCK_BYTES_MAX": draw(st.sampled_from([1, 20, 65_536])),
        "ROW_BYTES_MAX": draw(st.sampled_from([40, 65_536])),
        "LOOK_ROWS": draw(st.sampled_from([0, 16, 1_000])),
    }


IN_PYTHON = pytest.mark.skipif(form().compiled, reason="never: the bounds are compiled in")


@contextmanager
def bounds(regime: dict[str, int]) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, bound in regime.items():
            for module in (list_blocks, list_bytes, list_rows):
                if name in vars(module):
                    patch.setattr(module, name, bound)
        yield


@given(backends, ops, regimes())
def test_what_is_read_is_what_was_appended(backend, ops, regime):
    """In order of time, over epochs, restores and expiry, whether blocks were settled or not."""
    model: dict[bytes, list[tuple[int, bytes]]] = {key: [] for key in KEYS}
    oldest = 0
    with bounds(regime), world(backend, SPEC) as epochs:
        rows = ListRows(epochs.view, segment_ms=SEGMENT)
        for op in ops:
            match op:
                case "append", items:
                    rows.append(*(list(column) for column in zip(*items, strict=True)))
                    for key, time, value in items:
                        model[key].append((time, value))
                case "read", looks:
                    wanted, lows, lengths = (list(column) for column in zip(*looks, strict=True))
                    lows = [max(low, oldest) for low in lows]
                    highs = list(map(add, lows, lengths))
                    found = rows.read(wanted, lows, highs)
                    for key, low, high in zip(wanted, lows, highs, strict=True):
                        assert within(found, key, low, high) == [
                            entry
                            for entry in sorted(model[key], key=itemgetter(0))
                            if low <= entry[0] <= high
                        ]
                case "expire", bound:
                    oldest = max(oldest, bound)
                    rows.expire_before(bound)
                case (step,):
                    epochs.step(step)
                    rows = ListRows(epochs.view, segment_ms=SEGMENT)
        rows.expire_before(1_000)
        epochs.commit()
        assert kinds(epochs.view) <= {0}
        assert {key[:1] for key in logged(epochs)} <= {b"\x00"}


def within(
    found: Mapping[bytes, tuple[list[int], list[bytes]]], key: bytes, low: int, high: int
) -> list[tuple[int, bytes]]:
    times, values = found.get(key, ([], []))
    entries = list(zip(times, values, strict=True))
    return [entry for entry in entries if low <= entry[0] <= high]


def kinds(view: StoreOverlay) -> set[int]:
    """The first bytes of the keys that are there."""
    return {key[0] for key, _ in view.range()}


def logged(epochs: Epochs) -> dict[bytes, bytes]:
    """What compaction leaves of the changelog."""
    return {key: row for key, row in dict(epochs.log).items() if row is not None}


def append(
    epochs: Epochs,
    times: Iterable[int],
    key: str = "{}",
    value: bytes = b"v",
    segment_ms: int = SEGMENT,
) -> None:
    whole = list(times)
    keys = [key.format(time).encode() for time in whole]
    ListRows(epochs.view, segment_ms=segment_ms).append(keys, whole, [value] * len(whole))
    epochs.commit()


def look(
    epochs: Epochs, key: bytes, low: int, high: int, segment_ms: int = SEGMENT
) -> list[tuple[int, bytes]]:
    found = ListRows(epochs.view, segment_ms=segment_ms).read([key], [low], [high])
    return within(found, key, low, high)


def test_an_epoch_writes_a_row_for_many_keys():
    """Here and in the changelog; and deletes as many when their time is over."""
    with world("memory", StoreSpec(name="j", kind="list", segment_ms=16_000)) as epochs:
        rows = ListRows(epochs.view, segment_ms=16_000)
        rows.append([b"%d" % number for number in range(2_000)], list(range(2_000)), [b"v"] * 2_000)
        epochs.commit()
        assert [key[:1] for key, _ in epochs.log] == [b"\x00", BLOCK, BLOCK]
        ListRows(epochs.view, segment_ms=16_000).expire_before(1_500)
        epochs.commit()
        assert [value for _, value in epochs.log[3:]] == [None]
        ListRows(epochs.view, segment_ms=16_000).expire_before(2_000)
        epochs.commit()
        assert [value for _, value in epochs.log[3:]] == [None, None]
        assert epochs.view.count() == 1


def test_few_looks_settle_what_is_too_much_to_read():
    """A part of it each time; the changelog hears nothing of it, and a copy starts with blocks."""
    with world("lmdb", WIDE) as epochs:
        for _ in range(40):
            append(epochs, range(100, 110), segment_ms=160)
        before = logged(epochs)
        for _ in range(60):
            assert look(epochs, b"105", 104, 106, 160) == [(105, b"v")] * 40
            epochs.commit()
        assert kinds(epochs.view) == {0, SETTLED[0], 0x80}
        assert logged(epochs) == before
        epochs.restore()
        assert kinds(epochs.view) == {0, BLOCK[0]}
        assert look(epochs, b"105", 104, 106, 160) == [(105, b"v")] * 40


def test_many_looks_settle_nothing():
    """To read blocks whole is cheaper then."""
    with world("memory", WIDE) as epochs:
        for _ in range(4):
            append(epochs, range(100, 110), segment_ms=160)
        rows = ListRows(epochs.view, segment_ms=160)
        rows.read([b"%d" % time for time in range(100)], [100] * 100, [109] * 100)
        epochs.commit()
        assert kinds(epochs.view) == {0, BLOCK[0]}


def test_a_latecomer_reads_only_what_is_near_its_time():
    """Two spans that are far apart are read as two."""
    with world("memory", SPEC) as epochs:
        append(epochs, range(0, 1_000, 10))
        with pytest.MonkeyPatch.context() as patch:
            opened: list[bytes] = []
            unpack = list_blocks.open_block
            patch.setattr(list_rows, "open_block", lambda row: [opened.append(row), unpack(row)][1])
            rows = ListRows(epochs.view, segment_ms=SEGMENT)
            found = rows.read([b"10", b"900"], [5, 895], [12, 902])
        assert set(found) == {b"10", b"900"}
        assert len(opened) <= 6


@IN_PYTHON
def test_a_settled_list_stays_bounded():
    """A key with a great many entries is written in rows of bounded length."""
    with bounds({"ROW_BYTES_MAX": 400, "LOOK_ROWS": 0}), world("memory", SPEC) as epochs:
        for number in range(100):
            append(epochs, [105], key="k", value=b"%020d" % number)
            assert look(epochs, b"k", 105, 105) == [(105, b"%020d" % n) for n in range(number + 1)]
            epochs.commit()
        assert max(len(row) for key, row in epochs.view.range() if key[:1] != SETTLED) < 500
        ListRows(epochs.view, segment_ms=SEGMENT).expire_before(106)
        assert kinds(epochs.view) == {0, SEALED[0], 0x80}
        ListRows(epochs.view, segment_ms=SEGMENT).expire_before(110)
        epochs.commit()
        assert kinds(epochs.view) == {0}


@IN_PYTHON
def test_lists_that_are_over_go_a_part_at_a_time():
    """Sealed rows go with the last part."""
    with bounds({"ROW_BYTES_MAX": 20, "LOOK_ROWS": 0}), world("memory", SPEC) as epochs:
        for _ in range(2):
            append(epochs, range(10))
            look(epochs, b"5", 5, 5)
            epochs.commit()
        for _ in range(20):
            look(epochs, b"5", 0, 9)
            epochs.commit()
        rows = ListRows(epochs.view, segment_ms=SEGMENT)
        assert rows.expire_before(50, limit=6) > 6  # with what stands for the blocks
        assert len(list(epochs.view.range(b"\x40"))) == 4
        assert SEALED[0] in kinds(epochs.view)
        assert rows.expire_before(50, limit=6) == 4 + 10
        assert kinds(epochs.view) == {0}


def test_a_large_value_is_alone_in_its_block():
    """No record becomes much larger than the bound, but for one that is so by itself."""
    sizes = [BLOCK_BYTES_MAX // 4] * 3 + [4 * BLOCK_BYTES_MAX] + [1] * 3
    values = [bytes(size) for size in sizes]
    with world("lmdb", SPEC) as epochs:
        ListRows(epochs.view, segment_ms=1_000).append([b"k"] * 7, list(range(7)), values)
        epochs.commit()
        blocks = [unpack_block(row) for key, row in epochs.log if key[:1] == BLOCK and row]
        assert [times for _, times, _ in blocks] == [[0, 1, 2], [3], [4, 5, 6]]
        assert look(epochs, b"k", 0, 6) == list(enumerate(values))
