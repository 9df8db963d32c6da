"""What waits in a join of streams, as bytes, against a dict."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import pytest
from hypothesis import given, strategies as st

from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.joins.stream_join_waiting import Closed, WaitingRecords
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds import waiting
from mustela.state.kinds.waiting import BLOCK_BYTES_MAX, WaitingBlock, WaitingRows
from tests.unit.state.epochs import Epochs, backends, keys, world

SPEC = StoreSpec(name="w", kind="buffer", format_version=2)
STATE = b"\x00n"
WIDTH = 20

records = st.tuples(st.integers(0, 40), st.sampled_from([0, 1]), keys, st.binary(max_size=3))
ops = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(records, min_size=1, max_size=8)),
        st.tuples(st.just("find"), st.integers(0, 50)),
        st.tuples(st.just("take"), st.integers(0, 12)),
        st.tuples(st.sampled_from(["commit", "commit", "restore"])),
    ),
    max_size=40,
)


class OneGroup:
    """A store of one key group, whose epochs go on."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def group(self, _group: int) -> object:
        return self._epochs.view


def begin(epochs: Epochs, now: int) -> WaitingRecords:
    """Begin an epoch as the join does: so far its records may move the time."""
    found = WaitingRecords(cast("LaneStore", OneGroup(epochs)), width_ms=WIDTH)
    found.begin(0, now)
    return found


@st.composite
def regimes(draw: st.DrawFn) -> dict[str, int]:
    """Bounds that make blocks small, and merging frequent or rare."""
    return {
        "BLOCK_ROWS": draw(st.sampled_from([1, 3, 128])),
        "BLOCK_BYTES_MAX": draw(st.sampled_from([1, 20, 65_536])),
        "PARTS_MAX": draw(st.sampled_from([0, 1, 16])),
    }


@contextmanager
def bounds(regime: dict[str, int]) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, bound in regime.items():
            patch.setattr(waiting, name, bound)
        yield


class Model:
    """What waits, by when it closes, right before left, and key."""

    def __init__(self) -> None:
        self.now = 0
        self.there: dict[tuple[int, int, bytes], list[bytes]] = {}
        self.gone: set[tuple[int, int, bytes]] = set()

    def take(self, now: int) -> list[Closed]:
        self.now = now
        over = sorted(place for place in self.there if place[0] < now)
        return [
            Closed(at, 1 - rank, key, self.there.pop((at, rank, key))) for at, rank, key in over
        ]


@given(backends, ops, regimes())
def test_what_closes_is_what_waits(backend, ops, regime):
    """In order, each once, over epochs and restores; at the end nothing is left of it."""
    model, stored = Model(), set[tuple[int, int, bytes]]()
    with bounds(regime), world(backend, SPEC) as epochs:
        mine = begin(epochs, 0)
        for op in ops:
            match op:
                case "add", some:
                    for after, side, key, value in some:
                        place = model.now + after, 1 - side, key
                        if place in model.gone:  # its partner is there for it too
                            continue
                        model.there.setdefault(place, []).append(value)
                        mine.add(0, place[0], side, key, value)
                case "find", number:
                    places = sorted(model.there)
                    if places:
                        place = places[number % len(places)]
                        close, rank, key = place
                        mine.discard(0, close, 1 - rank, key, stored=place in stored)
                        del model.there[place]
                        model.gone.add(place)
                case "take", later:
                    now = model.now + later
                    mine.begin(0, now)
                    assert list(mine.take(0, now)) == model.take(now)
                case (step,):
                    end(mine, model)
                    epochs.step(step)
                    stored = set(model.there)
                    mine = begin(epochs, model.now)
        mine.begin(0, 1_000)
        assert list(mine.take(0, 1_000)) == model.take(1_000)
        mine.save()
        assert mine.due([0]) == {}
        epochs.commit()
        assert {key for key, _ in epochs.view.range()} <= {STATE}
        assert {key for key, row in dict(epochs.log).items() if row is not None} <= {STATE}


def end(mine: WaitingRecords, model: Model) -> None:
    """End an epoch; it is due in time, and not at once."""
    mine.begin(0, model.now)
    assert list(mine.take(0, model.now)) == model.take(model.now)
    mine.save()
    due = mine.due([0])
    if model.there:
        assert model.now < due[0] <= min(model.there)[0] + 1
    else:
        assert due.get(0, model.now + 1) > model.now


# --- what it costs --------------------------------------------------------------------------------


def add(mine: WaitingRecords, closes: range | list[int], *, value: bytes = b"v") -> None:
    for number, close in enumerate(closes):
        mine.add(0, close, 0, b"%d-%d" % (close, number), value)


def run(
    epochs: Epochs, now: int, closes: range | list[int], *, value: bytes = b"v"
) -> WaitingRecords:
    """Run an epoch in which records come to wait, and then time goes on."""
    mine = begin(epochs, now)
    add(mine, closes, value=value)
    mine.begin(0, now)
    mine.take(0, now)
    mine.save()
    epochs.commit()
    return mine


def blocks(rows: list[tuple[bytes, bytes]]) -> list[WaitingBlock]:
    return [WaitingBlock(*row) for row in rows if row[0] != STATE]


def test_what_comes_and_goes_within_an_epoch_is_not_written():
    """Neither what closes in it, nor what is found in it."""
    with world("memory", SPEC) as epochs:
        mine = begin(epochs, 0)
        add(mine, range(10))
        for close in range(5):
            mine.discard(0, close, 0, b"%d-%d" % (close, close), stored=False)
        mine.begin(0, 10)
        assert [closed.close for closed in mine.take(0, 10)] == [5, 6, 7, 8, 9]
        mine.save()
        epochs.commit()
        assert epochs.log == []


def test_a_block_costs_the_changelog_one_row_and_its_deletion():
    """However many epochs it is there, and part of it is over."""
    with world("memory", SPEC) as epochs:
        run(epochs, 0, range(100, 115))
        for now in range(100, 130):
            run(epochs, now, [])
        rows = [(key, row) for key, row in epochs.log if key != STATE]
        assert [row is None for _, row in rows] == [False, True]
        assert rows[0][0] == rows[1][0]


def test_blocks_are_bounded_in_rows_bytes_and_time():
    """A larger entry is alone in its block."""
    with world("memory", SPEC) as epochs:
        run(epochs, 0, [100] * 300)
        assert max(len(block.closes) for block in blocks(list(epochs.view.range()))) == 128
        run(epochs, 0, range(200, 260))
        assert all(b.last - b.closes[0] <= WIDTH for b in blocks(list(epochs.view.range())))
        run(epochs, 0, [300] * 4, value=bytes(BLOCK_BYTES_MAX))
        large = [block for block in blocks(list(epochs.view.range())) if block.last == 300]
        assert [len(block.closes) for block in large] == [1] * 4


def test_small_epochs_out_of_order_leave_few_blocks_to_read():
    """What an epoch reads does not grow with the epochs whose records are mixed with its own."""
    with world("memory", SPEC) as epochs:
        read: list[int] = []
        for now in range(2_000):
            mine = begin(epochs, now)
            mine = run(epochs, now, [now + 100 + (now * 7 + step) % 19 for step in range(3)])
            read.append(sum(len(block.closes) for block in mine.group(0).rows.blocks))
        assert max(read) < 3 * 17 + 128, max(read)
        # Merging writes a row again now and then, not again and again.
        written = sum(len(block.closes) for block in blocks_logged(epochs))
        assert written < 2.5 * 6_000, written


def blocks_logged(epochs: Epochs) -> list[WaitingBlock]:
    return blocks([(key, row) for key, row in epochs.log if row is not None])


def test_a_long_window_is_not_read_before_it_closes():
    """Thousands of blocks wait, and an epoch looks at those in front."""
    with world("memory", SPEC) as epochs:
        for now in range(0, 2_000):
            run(epochs, now, [now + 100_000])
        mine = begin(epochs, 2_000)
        assert mine.group(0).rows.blocks == []
        mine = begin(epochs, 100_002)
        assert [block.last for block in mine.group(0).rows.blocks] == [100_000, 100_001]


def test_where_order_counts_a_record_that_was_found_may_wait_again():
    """Then blocks are not merged, however many are over in part."""
    with world("memory", SPEC) as epochs, bounds({"PARTS_MAX": 0}):
        place = (10, 1, b"k")
        for waits, found, over in (
            ([(place, b"x"), ((3, 1, b"k"), b"y")], [], 4),
            ([], [place], None),
            ([(place, b"z")], [], None),
        ):
            rows = WaitingRows(epochs.view, width_ms=WIDTH, merges=False)
            rows.read(20)
            rows.save(over, waits, found)
            epochs.commit()
        found_rows = WaitingRows(epochs.view, width_ms=WIDTH, merges=False).read(20)
        assert [list(block.entries(0, 9)) for block in found_rows] == [
            [(3, 1, b"k"), (10, 1, b"k")],
            [(10, 3, b"k")],
            [(10, 1, b"k")],
        ]
