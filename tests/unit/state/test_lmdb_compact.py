"""Files are written anew, with full pages, and nothing of them is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mustela.state import lmdb_compact
from mustela.state.interfaces import Condition, Token
from mustela.state.lmdb_files import DATA_FILE
from mustela.state.verify import verify_environments
from tests.unit.state.environments import committed, open_lmdb, rows_of


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


def grown(root: Path, *, epochs: int = 12, rows: int = 1_500, **options: Any):
    """Write random keys, epoch after epoch; the last pending stays unfolded."""
    environment = open_lmdb(root, **options)
    draw = random.Random(3)
    model: dict[bytes, bytes] = {}
    state = committed(None)
    for epoch in range(1, epochs + 1):
        fresh = {b"%08d" % draw.randrange(10**8): draw.randbytes(100) for _ in range(rows)}
        token = Token(1, epoch, 0)
        environment.write_pending(token, state, {"counts": sorted(fresh.items())})
        model.update(fresh)
        state = committed(token, counts=len(model))
    return environment, state, model


def size(environment) -> int:
    return (environment.path / DATA_FILE).stat().st_size


def test_a_file_shrinks_and_holds_what_it_held(root):
    """Base, pending and description, also for the next process; a second time there is no need."""
    environment, state, model = grown(root)
    before = size(environment)
    assert environment.condition(state) is Condition.FOLDABLE
    assert environment.compact()
    assert size(environment) < 0.6 * before
    assert not environment.compact()
    assert environment.condition(state) is Condition.FOLDABLE
    assert rows_of(environment, state) == sorted(model.items())
    environment.fold(state)
    environment.close(clean=True)
    again = open_lmdb(root)
    assert rows_of(again, state) == sorted(model.items())
    again.close(clean=False)
    assert verify_environments([environment.path]) == []
    assert sorted(path.name for path in environment.path.parent.iterdir()) == [
        environment.path.name,
        f"{environment.path.name}.lock",
    ]


def test_small_and_large_ones_are_left_alone(root):
    """Where there is little to gain, or too much to copy."""
    environment, _, _ = grown(root, epochs=2, rows=20)
    assert not environment.compact()
    environment.destroy()
    environment, _, _ = grown(root)
    assert not environment.compact(live_bytes_max=1 << 16, closing=True)
    assert environment.compact(live_bytes_max=1 << 30, closing=True)
    environment.close(clean=False)


@pytest.mark.parametrize("limit", [None, 1 << 24])
def test_pages_are_filled_when_nothing_else_runs(root, limit):
    """Many small epochs leave no free pages to speak of, but pages that are half empty."""
    environment = open_lmdb(root)
    draw = random.Random(5)
    model: dict[bytes, bytes] = {}
    state = committed(None)
    for epoch in range(1, 151):
        fresh = {b"%08d" % draw.randrange(10**8): draw.randbytes(100) for _ in range(40)}
        token = Token(1, epoch, 0)
        environment.write_pending(token, state, {"counts": sorted(fresh.items())})
        model.update(fresh)
        state = committed(token, counts=len(model))
    environment.fold(state)
    before = size(environment)
    assert environment.compact(live_bytes_max=limit, closing=True)
    assert size(environment) < 0.8 * before
    assert size(environment) < 1.25 * sum(len(key) + len(row) + 4 for key, row in model.items())
    assert not environment.compact()
    assert rows_of(environment, state) == sorted(model.items())
    environment.close(clean=False)


def test_an_open_view_is_not_pulled_away(root):
    """Compaction waits for a better moment."""
    environment, state, model = grown(root)
    view = environment.snapshot(state)
    assert not environment.compact()
    assert len(list(view.range("counts", None, None))) == len(model)
    view.close()
    assert environment.compact()
    environment.close(clean=False)


def test_a_process_with_the_old_files_open_finds_the_new_ones(root):
    """What it writes afterwards is not written into a ghost."""
    other, state, model = grown(root)
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.state.environments import *\n"
        "assert open_lmdb(Path(sys.argv[1])).compact()\n"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        [sys.executable, "-c", program, str(root)],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    token = Token(1, 99, 0)
    other.write_pending(token, state, {"counts": [(b"new", b"row")]})
    state = committed(token, counts=len(model) + 1)
    other.close(clean=False)
    again = open_lmdb(root)
    assert rows_of(again, state) == sorted([*model.items(), (b"new", b"row")])
    again.close(clean=False)


@pytest.mark.parametrize("renames", [0, 1])
def test_a_crash_between_the_steps_loses_nothing(root, monkeypatch, renames):
    """Before the old files are moved aside, and before the new ones take their place."""
    environment, state, model = grown(root)
    done: list[int] = []
    rename = os.rename

    def crashing(*places):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(1)
        rename(*places)

    monkeypatch.setattr(lmdb_compact.os, "rename", crashing)
    with pytest.raises(KeyboardInterrupt):
        environment.compact()
    monkeypatch.undo()
    environment.close(clean=False)
    again = open_lmdb(root)
    assert rows_of(again, state) == sorted(model.items())
    assert again.compact()
    assert rows_of(again, state) == sorted(model.items())
    again.close(clean=False)


@pytest.mark.parametrize("rows", [20, 1_500])
def test_what_was_compacted_is_closed_cleanly(root, rows):
    """After another boot it is used again, not restored."""
    environment, state, model = grown(root, rows=rows)
    environment.fold(state)
    environment.compact()
    environment.close(clean=True)
    later = open_lmdb(root, boot="another")
    assert later.condition(state) is Condition.CURRENT
    assert rows_of(later, state) == sorted(model.items())
    later.close(clean=False)


def test_a_small_file_is_closed_without_its_free_pages(root):
    """Five pages hold a few rows, where epochs leave seventeen; the next life goes on."""
    environment, state, model = grown(root, rows=2, flat_bytes=0)
    environment.fold(state)
    before = size(environment)
    environment.close(clean=True)
    assert size(environment) <= before // 2
    assert size(environment) <= 7 * 4096
    assert (environment.path / DATA_FILE).stat().st_mode & 0o777 == 0o600
    assert verify_environments([environment.path]) == []
    again = open_lmdb(root, boot="another")
    token = Token(1, 99, 0)
    again.write_pending(token, state, {"counts": [(b"new", b"row")]})
    state = committed(token, counts=len(model) + 1)
    assert rows_of(again, state) == sorted([*model.items(), (b"new", b"row")])
    again.close(clean=False)


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_crash_while_a_small_file_is_closed_loses_nothing(root, monkeypatch, renames):
    """It was closed cleanly before, so what is there is used after another boot, too."""
    environment, state, model = grown(root, rows=2, flat_bytes=0)
    environment.fold(state)
    done: list[int] = []
    rename = os.rename

    def crashing(*places):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(1)
        rename(*places)

    removed = lmdb_compact.remove_tree

    def leaving(path):
        if len(done) == 2:
            raise KeyboardInterrupt
        removed(path)

    monkeypatch.setattr(lmdb_compact.os, "rename", crashing)
    monkeypatch.setattr(lmdb_compact, "remove_tree", leaving)
    with pytest.raises(KeyboardInterrupt):
        environment.close(clean=True)
    monkeypatch.undo()
    environment.close(clean=False)
    again = open_lmdb(root, boot="another")
    assert again.condition(state) is Condition.CURRENT
    assert rows_of(again, state) == sorted(model.items())
    again.close(clean=False)


def test_what_another_process_closed_cleanly_is_in_use_again_with_the_next_write(root):
    """A crash of the machine after that write is seen, though this process wrote before, too."""
    environment, state, model = grown(root)
    assert size(environment) > 1 << 20  # smaller files are new ones after they were closed
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.state.environments import *\n"
        "other = open_lmdb(Path(sys.argv[1]))\n"
        "other.sizes()\n"
        "other.close(clean=True)\n"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        [sys.executable, "-c", program, str(root)],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    token = Token(1, 99, 0)
    environment.write_pending(token, state, {"counts": [(b"k", b"3")]})
    state = committed(token, counts=len(model) + 1)
    environment.close(clean=False)
    after = open_lmdb(root, boot="another")
    assert after.condition(state) is Condition.DAMAGED
    after.close(clean=False)
