"""Where state is kept, and what is cleaned away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mustela.errors import UsageError
from mustela.state.directories import (
    choose_directory,
    release_directory,
    remove_unclaimed,
)
from mustela.state.faults import StateDirectoryError
from tests.unit.state.environments import fill, make_spec, open_lmdb


@pytest.fixture
def shm(tmp_path) -> Path:
    place = tmp_path / "shm"
    place.mkdir()
    return place


def choose(tmp_path: Path, shm: Path, **changes):
    said: list[str] = []
    values = {"backend": "memory", "needed_bytes": 1, "say": said.append, "shared_memory": shm}
    application = changes.pop("application_id", "app")
    return choose_directory(tmp_path / "disk", application, **(values | changes)), said


def test_disk_is_the_default(tmp_path, shm):
    """The disk backend keeps state where the settings say."""
    assert choose(tmp_path, shm, backend="disk") == (tmp_path / "disk", [])
    with pytest.raises(UsageError, match="'ram'"):
        choose(tmp_path, shm, backend="ram")


def test_memory_is_tmpfs_named_after_the_application(tmp_path, shm):
    """The directory is private, and the next run finds it again."""
    place, said = choose(tmp_path, shm)
    assert place == shm / f"mustela-{os.geteuid()}-app"
    assert place.stat().st_mode & 0o777 == 0o700
    assert said == []
    (place / "kept").mkdir()
    assert choose(tmp_path, shm)[0] == place
    assert (place / "kept").is_dir()
    release_directory(place, shared_memory=shm)
    assert list(shm.iterdir()) == []


def test_without_room_the_disk_is_used_and_said(tmp_path, shm):
    """Containers often have 64 MB of shared memory."""
    place, said = choose(tmp_path, shm, needed_bytes=1 << 60)
    assert place == tmp_path / "disk"
    assert "MiB free" in said[0]
    place, said = choose(tmp_path, shm, shared_memory=tmp_path / "absent")
    assert place == tmp_path / "disk"
    assert "does not exist" in said[0]


def test_directories_of_dead_owners_go(tmp_path, shm):
    """After a kill nothing stays on tmpfs for longer than until the next start."""
    program = (
        "import sys; from pathlib import Path\n"
        "from mustela.state.directories import choose_directory\n"
        "choose_directory(Path('d'), 'dead', backend='memory', needed_bytes=1,"
        " shared_memory=Path(sys.argv[1]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program, str(shm)], check=True, env=environment)
    alive, _ = choose(tmp_path, shm, application_id="alive")
    stranger = shm / "mustela-999999-other"
    stranger.mkdir()
    assert (shm / f"mustela-{os.geteuid()}-dead").is_dir() is False
    choose(tmp_path, shm, backend="disk")
    assert sorted(shm.iterdir()) == sorted([alive, stranger])


@pytest.mark.parametrize(
    ("part", "value", "stays"),
    [
        (0, "999999999", False),  # no such process
        (1, "1", False),  # its pid is used again
        (2, "another-boot", False),
        (2, "", True),  # a boot without a name is judged by the rest
        (3, "pid[1]", True),  # another container's process: nobody here sees it
    ],
)
def test_an_owner_is_known_by_more_than_its_pid(tmp_path, shm, part, value, stays):
    """Pid, start and boot name a process; who cannot see it does not say that it is dead."""
    place, _ = choose(tmp_path, shm)
    name = (place / "owner").read_text().split(":")
    assert (int(name[0]), len(name)) == (os.getpid(), 4)
    name[part] = value
    (place / "owner").write_text(":".join(name))
    choose(tmp_path, shm, backend="disk")
    assert place.exists() is stays
    if stays:
        (place / "owner").write_text("")


def test_release_does_not_take_a_pid_for_its_owner(tmp_path, shm):
    """In another container the same pid is another process, which may live."""
    place, _ = choose(tmp_path, shm)
    owner = place / "owner"
    name = owner.read_text().split(":")
    owner.write_text(":".join([*name[:3], "pid[1]"]))
    release_directory(place, shared_memory=shm)
    assert place.is_dir()


def test_a_host_that_names_no_processes_keeps_state_on_disk(tmp_path, shm, monkeypatch):
    """Nobody could tell whether the owner lives."""

    def nameless(_pid: int) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("mustela.state.directories._process_name", nameless)
    place, said = choose(tmp_path, shm)
    assert place == tmp_path / "disk"
    assert "no name in /proc" in said[0]


def test_a_link_on_tmpfs_is_refused(tmp_path, shm):
    """Anyone may write to /dev/shm, so a name there may be someone's trap."""
    target = tmp_path / "target"
    target.mkdir()
    (shm / f"mustela-{os.geteuid()}-app").symlink_to(target)
    with pytest.raises(StateDirectoryError, match="symbolic link"):
        choose(tmp_path, shm)


def test_release_leaves_the_disk_alone(tmp_path, shm):
    """Only what was made on tmpfs is deleted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    release_directory(disk, shared_memory=shm)
    assert disk.is_dir()


def test_release_leaves_what_a_newer_instance_has_taken_over(tmp_path, shm):
    """An instance that stops while another one goes on must not delete that one's state."""
    place, _ = choose(tmp_path, shm)
    owner = place / "owner"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        stat = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()
        owner.write_text(f"{other.pid}:{stat[19]}")
        release_directory(place, shared_memory=shm)
        assert place.is_dir()
        other.kill()
    release_directory(place, shared_memory=shm)
    assert not place.exists()


def test_stages_that_nobody_claims_are_deleted(tmp_path):
    """A changed topology leaves no state behind; other applications keep theirs."""
    for app, stage in (("app", "old"), ("app", "new"), ("other", "old")):
        environment = open_lmdb(tmp_path, make_spec(application_id=app, stage=stage))
        fill(environment, 3)
        environment.close(clean=True)
    leftover = tmp_path / "app" / "new" / "00001.dead-17"
    leftover.mkdir()
    removed = remove_unclaimed(tmp_path, "app", {"new"})
    assert removed == [leftover, tmp_path / "app" / "old"]
    assert sorted(path.name for path in (tmp_path / "app").iterdir()) == ["new"]
    assert (tmp_path / "app" / "new" / "00003" / "rows.flat").exists()
    assert (tmp_path / "other" / "old").is_dir()
    assert remove_unclaimed(tmp_path, "absent", set()) == []
