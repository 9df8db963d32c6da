"""What comes back to the driver: in the order of the senders, in memory and beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustela.spark.frames import CHANGELOG, ROWS, Columns, Frame, pack, pack_columns
from mustela.spark.results import FrameStore
from mustela.spark.spool import Spool, SpoolGoneError, clear, clear_others, fetch, forget
from mustela.state.interfaces import Token

TOKEN = Token(1, 2, 3)
HERE = Spool("", TOKEN, 0, 0)


def frame_of(place: tuple[int, int, int], value: bytes, kind: int = ROWS) -> tuple[Frame, bytes]:
    body = HERE.keep(pack_columns(Columns("out", [None], [value])))
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


@pytest.mark.parametrize("size", [0, 10, 32 * 1024 - 1, 32 * 1024, 100_000])
def test_a_body_comes_back_from_wherever_it_is(tmp_path: Path, size: int) -> None:
    """Small ones travel, large ones lie in a file that only the user can read."""
    spool = Spool(str(tmp_path / "spool"), TOKEN, 1, 2)
    bodies = [bytes([n]) * size for n in range(3)]
    kept = [spool.keep(body) for body in bodies]
    spool.close()
    assert [fetch(name) for name in kept] == bodies
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(files) == (size >= 32 * 1024)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert all(len(name) < 1_000 for name in kept) == (size != 32 * 1024 - 1)
    forget(str(tmp_path / "spool"), TOKEN)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_body_whose_file_is_gone_is_an_error_with_a_name(tmp_path: Path) -> None:
    """A newer instance clears what the older one left."""
    spool = Spool(str(tmp_path / "old"), TOKEN, 1, 2)
    kept = spool.keep(b"x" * 50_000)
    spool.close()
    clear_others(str(tmp_path / "new"))
    with pytest.raises(SpoolGoneError, match="is gone"):
        fetch(kept)


def test_forgetting_an_epoch_leaves_the_others(tmp_path: Path) -> None:
    """And clearing leaves nothing; neither minds that nothing is there."""
    root = str(tmp_path / "spool")
    later = Token(1, 2, 4)
    for token in (TOKEN, later):
        spool = Spool(root, token, 0, 0)
        kept = spool.keep(b"x" * 50_000)
        spool.close()
    forget(root, TOKEN)
    assert fetch(kept) == b"x" * 50_000
    clear(root)
    clear(root)
    forget(root, later)
    assert not (tmp_path / "spool").exists()


def test_a_program_clears_what_others_left_and_a_stopping_one_only_its_own(tmp_path: Path) -> None:
    """So an instance that was replaced takes no results away from the one that replaced it."""
    kept = {}
    for name in ("old", "new"):
        spool = Spool(str(tmp_path / "app" / name), TOKEN, 0, 0)
        kept[name] = spool.keep(b"x" * 50_000)
        spool.close()
    clear(str(tmp_path / "app" / "old"))
    assert fetch(kept["new"]) == b"x" * 50_000
    clear_others(str(tmp_path / "app" / "third"))
    assert not list((tmp_path / "app").iterdir())
    clear_others(str(tmp_path / "elsewhere" / "third"))


def test_without_a_common_disk_everything_travels() -> None:
    """An empty root says so."""
    spool = Spool("", TOKEN, 0, 0)
    assert fetch(spool.keep(b"x" * 100_000)) == b"x" * 100_000
    forget("", TOKEN)
    clear("")
    clear_others("")
