"""State on tmpfs comes back from the copy that a clean stop left on disk."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from mustela.state import lmdb_saved
from mustela.state.faults import StateDiskFullError
from mustela.state.interfaces import Condition, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of


class Machine:
    """A disk, and a tmpfs that a clean stop and a reboot empty."""

    def __init__(self, place: Path) -> None:
        self.disk, self.tmpfs = place / "disk", place / "shm"
        self.boots = 1

    def open(self, **spec: object) -> LmdbEnvironment:
        """Open the environment as a new process does."""
        boot = f"boot-{self.boots}"
        return open_lmdb(self.tmpfs, make_spec(**spec), boot=boot, saved_in=self.disk)

    def stop(self, environment: LmdbEnvironment) -> None:
        """End an application cleanly."""
        environment.close(clean=True)
        shutil.rmtree(self.tmpfs)

    def reboot(self) -> None:
        """Lose what is on tmpfs."""
        shutil.rmtree(self.tmpfs, ignore_errors=True)
        self.boots += 1


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def file_of(environment: LmdbEnvironment, root: Path) -> Path:
    return root / environment.path.relative_to(environment.path.parents[2]) / "rows.flat"


@pytest.mark.parametrize("reboots", [False, True])
def test_a_clean_stop_restores_nothing(machine: Machine, reboots: bool) -> None:
    """Whether or not the machine was started again in between."""
    environment = machine.open()
    state = fill(environment, 500)
    rows = rows_of(environment, state)
    machine.stop(environment)
    if reboots:
        machine.reboot()
    again = machine.open()
    assert again.condition(state) is Condition.CURRENT
    assert rows_of(again, state) == rows
    assert again.positions() == {"counts": 500}


def test_a_copy_that_is_behind_is_brought_forward_from_where_it_is(machine: Machine) -> None:
    """A machine that lost its tmpfs reads only what was committed since the last clean stop."""
    environment = machine.open()
    fill(environment, 10)
    machine.stop(environment)
    later = machine.open()
    token = Token(2, 2, 0)
    later.write_pending(token, committed(Token(1, 1, 0), counts=10), {"counts": [(b"new", b"1")]})
    state = committed(token, counts=11)
    later.fold(state)
    later.close(clean=False)
    machine.reboot()
    again = machine.open()
    assert again.condition(state) is Condition.BEHIND
    assert again.positions() == {"counts": 10}
    again.restore("counts", [(b"new", b"1")], 11)
    again.finish_restore(state)
    assert len(rows_of(again, state)) == 11


def test_after_a_crash_tmpfs_counts_and_not_the_copy(machine: Machine) -> None:
    """It is newer."""
    environment = machine.open()
    fill(environment, 10)
    machine.stop(environment)
    later = machine.open()
    token = Token(2, 2, 0)
    state = committed(token, counts=11)
    later.write_pending(token, committed(Token(1, 1, 0), counts=10), {"counts": [(b"new", b"1")]})
    later.close(clean=False)
    again = machine.open()
    assert again.condition(state) is Condition.FOLDABLE
    assert len(rows_of(again, state)) == 11


def test_a_copy_ahead_of_the_last_epoch_is_seen(machine: Machine) -> None:
    """The topics were made anew, the copy was not."""
    environment = machine.open()
    fill(environment, 10, Token(3, 7, 0))
    machine.stop(environment)
    assert machine.open().condition(committed(Token(1, 2, 0), counts=4)) is Condition.AHEAD


def test_a_copy_of_another_application_is_not_taken_for_ours(machine: Machine) -> None:
    """A directory that was moved here holds another one's numbers."""
    other = machine.open(application_id="other")
    fill(other, 10)
    source = file_of(other, machine.disk).parent
    machine.stop(other)
    environment = machine.open()
    shutil.copytree(source, file_of(environment, machine.disk).parent)
    assert environment.condition(committed(Token(1, 1, 0), counts=10)) is Condition.FOREIGN


@pytest.mark.parametrize("harm", ["cut", "zeroed", "no database"])
def test_a_damaged_copy_is_found_and_not_read_again(machine: Machine, harm: str) -> None:
    """It is rebuilt; the bad copy goes with what was read from it."""
    environment = machine.open()
    state = fill(environment)
    machine.stop(environment)
    file = file_of(environment, machine.disk)
    size = file.stat().st_size
    if harm == "cut":
        os.truncate(file, size // 3)
    elif harm == "zeroed":
        file.write_bytes(bytes(size))
    else:
        file.write_bytes(b"not a database")
    again = machine.open()
    assert again.condition(state) is Condition.DAMAGED
    again.destroy()
    assert not file.exists()
    assert again.condition(state) is Condition.EMPTY


def test_a_copy_is_replaced_whole_or_not_at_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full keeps the older copy, and leaves nothing beside it."""
    environment = machine.open()
    state = fill(environment, 10)
    machine.stop(environment)
    later = machine.open()
    token = Token(2, 2, 0)
    later.write_pending(token, state, {"counts": [(b"new", b"1")]})

    def full(_source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(lmdb_saved.shutil, "copyfile", full)
        with pytest.raises(StateDiskFullError):
            later.close(clean=True)
    place = file_of(later, machine.disk).parent
    assert [entry.name for entry in place.parent.iterdir()] == [place.name]
    machine.reboot()
    assert machine.open().condition(state) is Condition.CURRENT


def test_a_stop_that_is_not_clean_leaves_no_copy(machine: Machine) -> None:
    """What a crash leaves is on tmpfs, or gone."""
    environment = machine.open()
    state = fill(environment, 10)
    environment.close(clean=False)
    machine.reboot()
    assert machine.open().condition(state) is Condition.EMPTY
