"""A small environment is closed as one file of rows, and nothing of it is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.state import lmdb_flat
from mustela.state.codec import FLAT_FILE, decode_tables, encode_tables
from mustela.state.faults import StateDamagedError, StateNotReadyError
from mustela.state.interfaces import Condition, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import DATA_FILE
from mustela.state.lmdb_reader import LmdbReaders
from mustela.state.verify import verify_environments
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of

OLD = Path(__file__).parents[2] / "golden" / "files" / "formats" / "rows_1.flat"


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


def closed(root: Path, count: int = 100, **options: Any):
    """Fill an environment and close it."""
    environment = open_lmdb(root, **options)
    state = fill(environment, count)
    rows = rows_of(environment, state)
    environment.close(clean=True)
    return environment, state, rows


def names(environment: LmdbEnvironment) -> list[str]:
    return sorted(path.name for path in environment.path.iterdir())


def read(root: Path, state) -> list[tuple[bytes, bytes]]:
    readers = LmdbReaders(root, boot="boot-1")
    view = readers.snapshot(make_spec(), state)
    try:
        return list(view.range("counts", None, None))
    finally:
        view.close()
        readers.close()


def elsewhere(act: Callable[[], object]) -> int:
    """Run something in a process of its own; return how that ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def _write_elsewhere(root: Path, clean: bool) -> None:
    """Write one row more, or fold it, in a program of its own: LMDB refuses files twice."""
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.state.environments import *\n"
        "mine, token, clean = open_lmdb(Path(sys.argv[1])), Token(1, 2, 0), sys.argv[2] == 'True'\n"
        "before = committed(Token(1, 1, 0), counts=100)\n"
        "if clean: mine.fold(committed(token, counts=101))\n"
        "else: mine.write_pending(token, before, {'counts': [(b'new', b'row')]})\n"
        "mine.close(clean=clean)\n"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", program, str(root), str(clean)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=True)


tables = st.dictionaries(
    st.text(max_size=5),
    st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9))).map(
        lambda rows: ([key for key, _ in rows], [row for _, row in rows])
    ),
)


@given(tables, st.data())
def test_rows_come_back_or_are_known_to_be_damaged(rows, data):
    """Whatever byte is another one, or missing."""
    blob = encode_tables(rows)
    assert decode_tables(blob) == rows
    at = data.draw(st.integers(0, len(blob) - 1))
    assert decode_tables(blob[:at]) is None
    changed = blob[:at] + bytes([blob[at] ^ data.draw(st.integers(1, 255))]) + blob[at + 1 :]
    assert decode_tables(changed) is None


def test_a_hundred_rows_take_a_page(root):
    """LMDB's files are gone; the next life opens, reads, writes and closes it as ever."""
    environment, state, rows = closed(root)
    assert names(environment) == [FLAT_FILE]
    file = environment.path / FLAT_FILE
    assert file.stat().st_size <= 4096
    assert file.stat().st_mode & 0o777 == 0o600
    again = open_lmdb(root, boot="another")
    assert again.condition(state) is Condition.CURRENT
    assert again.positions() == {"counts": 100}
    assert rows_of(again, state) == rows
    token = Token(1, 2, 0)
    again.write_pending(token, state, {"counts": [(b"new", b"row")]})
    assert FLAT_FILE not in names(again)
    state = committed(token, counts=101)
    again.fold(state)
    again.close(clean=True)
    assert names(again) == [FLAT_FILE]
    last = open_lmdb(root)
    assert rows_of(last, state) == sorted([*rows, (b"new", b"row")])
    last.close(clean=False)


def test_what_was_only_read_is_not_written_again(root):
    """Not at the stop, and not after a crash of the machine."""
    environment, state, rows = closed(root)
    file = environment.path / FLAT_FILE
    inode = file.stat().st_ino
    again = open_lmdb(root)
    assert rows_of(again, state) == rows
    again.close(clean=True)
    assert (names(again), file.stat().st_ino) == ([FLAT_FILE], inode)
    again = open_lmdb(root, boot="two")
    assert rows_of(again, state) == rows
    again.close(clean=False)
    later = open_lmdb(root, boot="three")
    assert later.condition(state) is Condition.CURRENT
    later.close(clean=False)


def test_what_was_written_since_is_not_trusted_after_a_crash_of_the_machine(root):
    """The file of rows is gone by then."""
    _, state, _ = closed(root)
    again = open_lmdb(root)
    again.write_pending(Token(1, 2, 0), state, {"counts": [(b"new", b"row")]})
    again.close(clean=False)
    assert open_lmdb(root, boot="another").condition(state) is Condition.DAMAGED


def test_a_larger_one_stays_in_pages(root):
    """Making them anew would take too long."""
    environment, state, rows = closed(root, 2_000, flat_bytes=1 << 16)
    assert names(environment) == [DATA_FILE]
    assert rows_of(open_lmdb(root), state) == rows


def test_readers_see_the_same_rows_in_either_form(root):
    """They leave nothing behind, and follow a writer that takes the state up."""
    before = set(os.listdir(tempfile.gettempdir()))
    environment, state, rows = closed(root)
    assert read(root, state) == rows
    assert names(environment) == [FLAT_FILE]
    readers = LmdbReaders(root, boot="boot-1")
    readers.snapshot(make_spec(), state).close()
    later = committed(Token(1, 2, 0), counts=101)
    for clean in (False, True):
        _write_elsewhere(root, clean)
        view = readers.snapshot(make_spec(), later)
        assert view.get("counts", b"new") == b"row"
        view.close()
    with pytest.raises(StateNotReadyError):
        readers.snapshot(make_spec(), state)
    readers.close()
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("mustela-rows-")]


@pytest.mark.parametrize("keep", [0, 10, 30, 200])
def test_a_file_of_rows_that_is_cut_is_damaged(root, keep):
    """It is found by all who open it, and rebuilt."""
    environment, state, _ = closed(root)
    os.truncate(environment.path / FLAT_FILE, keep)
    assert verify_environments([environment.path]) == [environment.path]
    with pytest.raises(StateDamagedError):
        read(root, state)
    again = open_lmdb(root)
    assert again.condition(state) is Condition.DAMAGED
    again.destroy()
    assert again.condition(state) is Condition.EMPTY
    again.close(clean=False)


def test_sound_files_of_rows_are_sound(root):
    """The check of all files knows them."""
    environment, _, _ = closed(root)
    assert verify_environments([environment.path]) == []


CLOSING = ["fsync", "rename", "unlink"]
OPENING = ["fill", "rename", "open_handle"]


def killed_at(name: str, act: Callable[[], object]) -> None:
    """Run something in a process of its own, which is killed when it comes to a step."""
    places = {"unlink": Path, "fill": lmdb_flat, "open_handle": lmdb_flat}

    def dying() -> None:
        place = places.get(name, lmdb_flat.os)
        setattr(place, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        act()

    assert os.WTERMSIG(elsewhere(dying)) == signal.SIGKILL


@pytest.mark.parametrize("step", CLOSING)
def test_a_process_killed_while_it_closes_loses_nothing(root, step):
    """Before the file of rows is on disk, has its name, and before LMDB's files are gone."""
    environment = open_lmdb(root)
    state = fill(environment, 100)
    rows = rows_of(environment, state)
    environment.close(clean=False)
    killed_at(step, lambda: (rows_of(mine := open_lmdb(root), state), mine.close(clean=True)))
    assert read(root, state) == rows
    again = open_lmdb(root)
    assert again.condition(state) is Condition.CURRENT
    token = Token(1, 2, 0)
    again.write_pending(token, state, {"counts": [(b"new", b"row")]})
    again.close(clean=False)
    state = committed(token, counts=101)
    last = open_lmdb(root)
    assert rows_of(last, state) == sorted([*rows, (b"new", b"row")])
    last.fold(state)
    last.close(clean=True)
    assert names(last) == [FLAT_FILE]


@pytest.mark.parametrize("step", OPENING)
def test_a_process_killed_while_it_opens_loses_nothing(root, step):
    """Whatever it had made of LMDB's file, also if the machine goes down with it."""
    environment, state, rows = closed(root)
    killed_at(step, lambda: open_lmdb(root).condition(state))
    again = open_lmdb(root, boot="another")
    assert again.condition(state) is Condition.CURRENT
    assert rows_of(again, state) == rows
    again.close(clean=True)
    assert names(again) == [FLAT_FILE]
    beside = [path.name for path in environment.path.parent.iterdir()]
    assert sorted(beside) == [environment.path.name, f"{environment.path.name}.lock"]


def test_a_file_of_rows_that_an_older_release_passed_over_is_old(root):
    """That one made LMDB's files beside it: they count, also for the close that follows."""
    environment, state, rows = closed(root)
    kept = (environment.path / FLAT_FILE).read_bytes()
    again = open_lmdb(root)
    token = Token(1, 2, 0)
    again.write_pending(token, state, {"counts": [(b"new", b"row")]})
    state = committed(token, counts=101)
    again.fold(state)
    again.close(clean=False)
    (environment.path / FLAT_FILE).write_bytes(kept)
    for _ in range(2):
        later = open_lmdb(root)
        assert rows_of(later, state) == sorted([*rows, (b"new", b"row")])
        later.close(clean=True)


def test_the_first_format_is_read(root):
    """Bytes that lie on disks since the file of rows was made first."""
    environment = open_lmdb(root)
    environment.path.mkdir(parents=True, mode=0o700)
    os.chmod(environment.path.parents[1], 0o700)
    os.chmod(environment.path.parents[0], 0o700)
    (environment.path / FLAT_FILE).write_bytes(OLD.read_bytes())
    state = committed(Token(1, 2, 0), counts=101)
    assert environment.condition(state) is Condition.FOLDABLE
    expected = [(b"key-%06d" % number, b"value-%06d" % number) for number in range(100)]
    assert rows_of(environment, state) == sorted([*expected, (b"k" * 600, b"long")])
    environment.close(clean=False)
