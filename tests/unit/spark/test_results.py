"""What comes back to the driver: in the order of the senders, in memory and beyond it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.columns import Columns as Rows
from mustela.spark import spool as module
from mustela.spark.frames import CHANGELOG, ROWS, Frame, FrameColumns, pack
from mustela.spark.results import FrameStore
from mustela.spark.spool import Spool, SpoolGoneError, SpoolReader, clear, clear_others, forget
from mustela.state.interfaces import Token
from tests.unit.connectors.test_columns import Remembers, fed

TOKEN = Token(1, 2, 3)
HERE = Spool("", TOKEN, 0, 0)


def frame_of(place: tuple[int, int, int], value: bytes, kind: int = ROWS) -> tuple[Frame, bytes]:
    body = HERE.keep(FrameColumns("out", [None], [value]))
    frame = Frame(kind, -1, *place, "name", body)
    return frame, pack(frame)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 5)), unique=True, max_size=12
    ),
    st.integers(0, 2_000),
)
def test_frames_come_in_the_order_of_their_senders_however_many_fit(
    places: list[tuple[int, int, int]], limit: int
) -> None:
    """A shuffle delivers in any order; a part may be on disk; reading twice gives the same."""
    store = FrameStore(limit)
    for place in places:
        store.add(*frame_of(place, repr(place).encode()))
    expected = [repr(place).encode() for place in sorted(places)]
    view = store.view(ROWS)
    for _ in range(2):
        assert [columns.values[0] for columns in view] == expected
    store.close()


def test_kinds_are_apart_and_changelogs_carry_their_store() -> None:
    """Each iteration begins anew."""
    store = FrameStore(1 << 20)
    store.add(*frame_of((0, 0, 0), b"row"))
    store.add(*frame_of((0, 0, 1), b"change", CHANGELOG))
    assert [columns.values for columns in store.view(ROWS)] == [[b"row"]]
    assert [(name, columns.values) for name, columns in store.named(CHANGELOG)] == [
        ("name", [b"change"])
    ]
    assert store.size == sum(len(frame_of((0, 0, n), b, k)[1]) for n, b, k in SIZES)
    store.close()


SIZES = [(0, b"row", ROWS), (1, b"change", CHANGELOG)]


def test_beyond_the_limit_frames_are_on_disk_and_gone_when_closed() -> None:
    """The driver's memory stays bounded."""
    store = FrameStore(limit=100)
    for number in range(20):
        store.add(*frame_of((0, number, 0), b"v" * 200))
    file = store._file
    assert file is not None
    assert store._memory <= 100
    assert len(list(store.view(ROWS))) == 20
    store.close()
    assert file.closed


def rows_of(*values: bytes | None) -> FrameColumns:
    """Rows with these values; everything else differs by row, too."""
    count = range(len(values))
    keys: list[bytes | None] = [b"k%d" % n if n % 3 else None for n in count]
    return FrameColumns("out", keys, list(values), [5 * n for n in count], None, None)


def fetched(*kept: bytes) -> list[FrameColumns]:
    """What was kept, with its values in memory."""
    reader = SpoolReader()
    try:
        found = [reader.fetch(body) for body in kept]
        return [columns._replace(values=list(columns.values)) for columns in found]
    finally:
        reader.close()


@pytest.mark.parametrize(("size", "count"), [(0, 0), (0, 9), (10, 9), (10, 20_000), (200, 9)])
@pytest.mark.parametrize("nulls", [False, True])
def test_rows_come_back_from_wherever_they_are(
    tmp_path: Path, size: int, count: int, nulls: bool
) -> None:
    """Few travel, many lie in a file that only the user can read; large values lie apart."""
    values = [None if nulls and n % 2 else bytes([n % 256]) * (size + n % 2) for n in range(count)]
    rows = rows_of(*values)
    many = rows_of(*values * 2_000) if count < 10 else rows
    spool = Spool(str(tmp_path / "spool"), TOKEN, 1, 2)
    kept = [spool.keep(rows), spool.keep(many), spool.keep(rows)]
    spool.close()
    assert fetched(*kept) == [rows, many, rows]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(files) == (count > 0)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert len(kept[1]) < 1_000
    forget(str(tmp_path / "spool"), TOKEN)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_parts_of_a_column_are_read_in_any_order_and_more_than_once(tmp_path: Path) -> None:
    """As the producer does it when its queue is full, and the search for a refused row."""
    values = [b"%d" % n * 300 if n % 7 else None for n in range(500)]
    spool = Spool(str(tmp_path / "spool"), TOKEN, 1, 2)
    kept = spool.keep(rows_of(*values))
    spool.close()
    reader = SpoolReader()
    column = reader.fetch(kept).values
    for part in (slice(0, 100), slice(100, 500), slice(90, 110), slice(None), slice(500, 600)):
        assert list(column[part]) == values[part]
        assert len(column[part]) == len(values[part])
    assert list(column[100:200][50:60]) == values[150:160]
    assert [column[n] for n in (0, 499, -1, 7)] == [values[n] for n in (0, 499, -1, 7)]
    with pytest.raises(IndexError):
        column[500]
    reader.close()


def test_a_disk_that_takes_a_part_takes_the_rest_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may write less than it was given; it says why when it is asked again."""
    monkeypatch.setattr(module.os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[:5]))
    rows = rows_of(*[b"%d" % n * 300 for n in range(100)])
    spool = Spool(str(tmp_path / "spool"), TOKEN, 1, 2)
    kept = spool.keep(rows)
    spool.close()
    assert fetched(kept) == [rows]


def test_a_body_whose_file_is_gone_is_an_error_with_a_name(tmp_path: Path) -> None:
    """A newer instance clears what the older one left."""
    spool = Spool(str(tmp_path / "old"), TOKEN, 1, 2)
    kept = spool.keep(rows_of(b"x" * 50_000))
    spool.close()
    clear_others(str(tmp_path / "new"))
    with pytest.raises(SpoolGoneError, match="is gone"):
        fetched(kept)


def test_forgetting_an_epoch_leaves_the_others(tmp_path: Path) -> None:
    """And clearing leaves nothing; neither minds that nothing is there."""
    root = str(tmp_path / "spool")
    later = Token(1, 2, 4)
    for token in (TOKEN, later):
        spool = Spool(root, token, 0, 0)
        kept = spool.keep(rows_of(b"x" * 50_000))
        spool.close()
    forget(root, TOKEN)
    assert fetched(kept) == [rows_of(b"x" * 50_000)]
    clear(root)
    clear(root)
    forget(root, later)
    assert not (tmp_path / "spool").exists()


def test_a_program_clears_what_others_left_and_a_stopping_one_only_its_own(tmp_path: Path) -> None:
    """So an instance that was replaced takes no results away from the one that replaced it."""
    kept = {}
    for name in ("old", "new"):
        spool = Spool(str(tmp_path / "app" / name), TOKEN, 0, 0)
        kept[name] = spool.keep(rows_of(b"x" * 50_000))
        spool.close()
    clear(str(tmp_path / "app" / "old"))
    assert fetched(kept["new"]) == [rows_of(b"x" * 50_000)]
    clear_others(str(tmp_path / "app" / "third"))
    assert not list((tmp_path / "app").iterdir())
    clear_others(str(tmp_path / "elsewhere" / "third"))


def test_without_a_common_disk_everything_travels() -> None:
    """An empty root says so."""
    spool = Spool("", TOKEN, 0, 0)
    rows = rows_of(b"x" * 100_000)
    assert fetched(spool.keep(rows)) == [rows]
    forget("", TOKEN)
    clear("")
    clear_others("")


def test_a_producer_whose_queue_is_full_gets_every_stored_row_once(tmp_path: Path) -> None:
    """It is handed the column in parts, and a part once more from where it stopped."""
    values = [b"%d" % n * 300 for n in range(300)]
    spool = Spool(str(tmp_path / "spool"), TOKEN, 1, 2)
    kept = spool.keep(rows_of(*values))
    spool.close()
    reader = SpoolReader()
    stored = reader.fetch(kept)
    producer = Remembers(full_at=(0, 7, 7, 299))
    assert fed(producer, Rows(topics="t", keys=stored.keys, values=stored.values)) == []
    assert [row[1] for row in producer.rows] == values
    reader.close()
