"""What happens to files, disks and processes, and what an LMDB environment makes of it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import lmdb
import pytest

from mustela.state import lmdb_pendings
from mustela.state.faults import (
    StateDamagedError,
    StateDirectoryError,
    StateDiskFullError,
    StateIOError,
    StateLockedError,
    StateNotReadyError,
)
from mustela.state.interfaces import Committed, Condition, Token
from mustela.state.lmdb_files import reported
from mustela.state.locking import WriteLock
from mustela.state.registry import EnvironmentRegistry
from mustela.state.verify import verify_environments
from tests.patience import PATIENCE_S
from tests.unit.state.environments import (
    committed,
    fill,
    make_spec,
    open_lmdb as open_of_any_form,
    rows_of,
)

pytestmark = pytest.mark.slow

PAGE = 4096
DATA = "data.mdb"

# What is closed stays in LMDB's form, to be damaged; the other one is test_lmdb_flat.py's.
open_lmdb = partial(open_of_any_form, flat_bytes=0)


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


def closed_environment(root: Path, count: int = 2_000):
    environment = open_lmdb(root)
    state = fill(environment, count)
    environment.close(clean=True)
    return environment.path, state


def change(path: Path, offset: int, data: bytes) -> None:
    with (path / DATA).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def rebuilds(environment, state: Committed) -> None:
    environment.destroy()
    assert environment.condition(state) is Condition.EMPTY
    environment.restore("counts", [(b"k", b"v")], state.changelog_ends["counts"])
    environment.finish_restore(state)
    assert rows_of(environment, state) == [(b"k", b"v")]
    environment.close(clean=False)


def test_deleted_state_is_empty(root):
    """Without files there is nothing to trust, and nothing in the way."""
    path, state = closed_environment(root)
    (path / DATA).unlink()
    environment = open_lmdb(root)
    assert environment.condition(state) is Condition.EMPTY
    rebuilds(environment, state)


@pytest.mark.parametrize("keep", [0, 1, 100, PAGE, 2 * PAGE, 5 * PAGE])
def test_a_cut_file_is_found_before_it_kills_the_process(root, keep):
    """Reading behind the end of a file is a SIGBUS, so the length is looked at first."""
    path, state = closed_environment(root)
    os.truncate(path / DATA, keep)
    environment = open_lmdb(root)
    expected = Condition.EMPTY if keep == 0 else Condition.DAMAGED
    assert environment.condition(state) is expected
    rebuilds(environment, state)


def test_a_zeroed_page_is_found_by_a_process_that_may_die(root):
    """Whatever page is zeroed: it is found, or it was a free one and nothing is missing."""
    path, state = closed_environment(root)
    content = (path / DATA).read_bytes()
    sound, found = 0, 0
    for number in range(0, len(content) // PAGE, 3):
        (path / DATA).write_bytes(content)
        change(path, number * PAGE, bytes(PAGE))
        if verify_environments([path]):
            found += 1
            continue
        sound += 1
        environment = open_lmdb(root)
        assert len(rows_of(environment, state)) == 2_000
        environment.close(clean=False)
    assert found > 5
    environment = open_lmdb(root)
    environment.destroy()


def test_a_flipped_byte_in_a_value_is_found_on_read(root):
    """A value is never returned that is not what was written."""
    path, state = closed_environment(root)
    place = (path / DATA).read_bytes().rindex(b"value-000777")
    change(path, place + 3, b"X")
    environment = open_lmdb(root)
    view = environment.snapshot(state)
    for read in (
        lambda: view.get("counts", b"key-000777"),
        lambda: view.getmulti("counts", [b"key-%06d" % index for index in range(2_000)]),
        lambda: list(view.range("counts", None, None)),
    ):
        with pytest.raises(StateDamagedError) as caught:
            read()
        assert caught.value.fields["key"] == b"key-000777"
        assert caught.value.fields["store"] == "counts"
    view.close()
    environment.close(clean=False)
    assert verify_environments([path]) == [path]
    rebuilds(open_lmdb(root), state)


def test_a_flipped_byte_in_a_key_is_found_by_verify(root):
    """A key that reads differently is missing under its name; only a full reading finds that."""
    path, _ = closed_environment(root)
    assert verify_environments([path]) == []
    place = (path / DATA).read_bytes().rindex(b"key-000777")
    change(path, place + 9, b"X")
    assert verify_environments([path]) == [path]


def test_a_flipped_byte_in_a_pending_is_found(root):
    """A pending is checked as a whole before any of it becomes state."""
    environment = open_lmdb(root)
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"apple", b"green")]})
    environment.close(clean=False)
    place = (environment.path / DATA).read_bytes().rindex(b"green")
    change(environment.path, place, b"brown")
    state = committed(token, counts=1)
    environment = open_lmdb(root)
    for use in (
        lambda: environment.snapshot(state),
        lambda: environment.fold(state),
        lambda: environment.write_pending(Token(1, 2, 0), state, {}),
    ):
        with pytest.raises(StateDamagedError):
            use()
    rebuilds(environment, state)


def test_a_flipped_byte_in_the_description_is_damage(root):
    """Who cannot say what it is, is not used."""
    path, state = closed_environment(root)
    content = (path / DATA).read_bytes()
    start = 0
    while (place := content.find(b"cluster_id", start)) >= 0:
        change(path, place, b"X")
        start = place + 1
    environment = open_lmdb(root)
    assert environment.condition(state) is Condition.DAMAGED
    rebuilds(environment, state)


def test_files_that_are_no_environment_are_damage(root):
    """Any content at all can be in a file."""
    path, state = closed_environment(root)
    (path / DATA).write_bytes(os.urandom(20 * PAGE))
    environment = open_lmdb(root)
    assert environment.condition(state) is Condition.DAMAGED
    assert verify_environments([path]) == [path]
    rebuilds(environment, state)


def test_another_boot_trusts_only_a_clean_close(root):
    """Writes that were not synced may be half on the disk after a crash of the machine."""
    environment = open_lmdb(root, boot="one")
    state = fill(environment, 10)
    environment.close(clean=False)
    environment = open_lmdb(root, boot="one")
    assert environment.condition(state) is Condition.CURRENT
    environment.close(clean=False)
    environment = open_lmdb(root, boot="two")
    assert environment.condition(state) is Condition.DAMAGED
    environment.close(clean=True)
    environment = open_lmdb(root, boot="one")
    assert environment.condition(state) is Condition.CURRENT
    environment.close(clean=True)
    environment = open_lmdb(root, boot="two")
    assert environment.condition(state) is Condition.CURRENT
    environment.write_pending(Token(1, 2, 0), state, {})
    environment.close(clean=False)
    environment = open_lmdb(root, boot="three")
    assert environment.condition(state) is Condition.DAMAGED
    rebuilds(environment, state)


def test_a_boot_without_a_name_is_not_the_same_boot(root):
    """Where the kernel names no boot, two of them look alike; a clean close is believed."""
    environment = open_lmdb(root, boot="")
    state = fill_unnamed(environment)
    assert open_lmdb(root, boot="").condition(state) is Condition.DAMAGED
    environment = open_lmdb(root, boot="named")
    assert environment.condition(state) is Condition.DAMAGED
    environment.destroy()
    state = fill(environment, 10)
    environment.close(clean=True)
    assert open_lmdb(root, boot="").condition(state) is Condition.CURRENT


def fill_unnamed(environment) -> Committed:
    """Leave state open; it cannot be folded, because who opens it again does not believe it."""
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"k", b"v")]})
    environment.close(clean=False)
    return committed(token, counts=1)


@pytest.mark.parametrize(
    "other",
    [
        {"application_id": "app2"},
        {"cluster_id": "cluster2"},
        {"stage": "60"},
        {"group": 4},
        {"groups": 16},
    ],
)
def test_state_of_another_owner_is_foreign(root, other):
    """A directory that was copied or reused is not taken for one's own."""
    path, state = closed_environment(root)
    spec = make_spec(**other)
    environment = open_lmdb(root, spec)
    if environment.path != path:
        environment.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        environment.path.parent.parent.chmod(0o700)
        path.rename(environment.path)
    assert environment.condition(state) is Condition.FOREIGN
    with pytest.raises(StateNotReadyError):
        environment.snapshot(state)
    rebuilds(environment, state)


def test_an_old_copy_put_back_is_behind(root, tmp_path):
    """Files from a backup are one epoch behind, and say so."""
    environment = open_lmdb(root)
    state = fill(environment, 10)
    environment.close(clean=True)
    backup = (environment.path / DATA).read_bytes()
    token = Token(1, 2, 0)
    environment.write_pending(token, state, {"counts": [(b"k", b"v")]})
    newer = committed(token, counts=11)
    environment.fold(newer)
    environment.close(clean=True)
    (environment.path / DATA).write_bytes(backup)
    environment = open_lmdb(root)
    assert environment.condition(newer) is Condition.BEHIND
    assert environment.positions() == {"counts": 10}
    environment.close(clean=False)


@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), lmdb.Error("x: Too many open files")]
)
def test_too_few_open_files_are_no_fault_of_the_disk(root, error):
    """The advice is the limit."""
    with pytest.raises(StateIOError) as caught, reported(root):
        raise error
    assert caught.value.fields["errno"] == 24
    assert "ulimit -n" in str(caught.value)


def test_a_full_map_changes_nothing(root):
    """An epoch that does not fit is refused as a whole, and what was there can be read."""
    environment = open_lmdb(root, map_bytes=1 << 20)
    state = fill(environment, 1_000)
    rows = [(b"big-%06d" % index, bytes(1_000)) for index in range(2_000)]
    with pytest.raises(StateDiskFullError) as caught:
        environment.write_pending(Token(1, 2, 0), state, {"counts": rows})
    assert caught.value.code == "STATE_DISK_FULL"
    assert len(rows_of(environment, state)) == 1_000
    environment.write_pending(Token(1, 2, 1), state, {"counts": [(b"k", b"v")]})
    after = committed(Token(1, 2, 1), counts=1_001)
    assert len(rows_of(environment, after)) == 1_001
    environment.close(clean=False)


def _write_with_little_room(root: Path, outcome) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    environment = open_lmdb(root)
    state = fill(environment, 1_000)
    size = (environment.path / DATA).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5 * PAGE, resource.RLIM_INFINITY))
    rows = [(b"big-%06d" % index, bytes(1_000)) for index in range(2_000)]
    try:
        environment.write_pending(Token(1, 2, 0), state, {"counts": rows})
    except StateDiskFullError:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        environment.write_pending(Token(1, 2, 1), state, {"counts": [(b"k", b"v")]})
        outcome.put(len(rows_of(environment, committed(Token(1, 2, 1), counts=1_001))))
    else:
        outcome.put("written")


def test_a_full_disk_changes_nothing(root):
    """When the file cannot grow the error has a name, and after making room work goes on."""
    context = multiprocessing.get_context("spawn")
    outcome = context.Queue()
    child = context.Process(target=_write_with_little_room, args=(root, outcome))
    child.start()
    assert outcome.get(timeout=PATIENCE_S) == 1_001
    child.join()
    assert child.exitcode == 0


def test_a_full_file_system_changes_nothing(tmp_path):
    """The same on a real file system that is full, where this test may mount one."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", str(mount)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a file system")
    try:
        environment = open_lmdb(mount, reserve_bytes=1 << 20)
        state = fill(environment, 1_000)
        rows = [(b"big-%06d" % index, bytes(1_000)) for index in range(20_000)]
        for attempt in range(3):
            with pytest.raises(StateDiskFullError):
                environment.write_pending(Token(1, 2, attempt), state, {"counts": rows})
            assert len(rows_of(environment, state)) == 1_000
        environment.destroy()
        state = fill(environment, 500)
        assert len(rows_of(environment, state)) == 500
        environment.close(clean=True)
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_too_little_room_to_open_is_named(root):
    """LMDB maps its lock file; without room for it the process would end with a signal."""
    environment = open_lmdb(root, reserve_bytes=1 << 60)
    with pytest.raises(StateDiskFullError):
        environment.condition(Committed())


def test_a_process_killed_while_writing_leaves_the_committed_state(root):
    """SIGKILL at any moment keeps the base and the pending that the driver names."""
    path, state = closed_environment(root, 500)
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.state.environments import *\n"
        "environment = open_lmdb(Path(sys.argv[1]))\n"
        "state = committed(Token(1, 1, 0), counts=500)\n"
        "rows = [(b'key-%06d' % index, bytes(200)) for index in range(500)]\n"
        "print('ready', flush=True)\n"
        "for attempt in range(100_000):\n"
        "    environment.write_pending(Token(1, 2, attempt), state, {'counts': rows})\n"
    )
    for delay_rounds in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(root)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert child.stdout is not None
        child.stdout.readline()
        for _ in range(20_000 * (delay_rounds + 1)):
            pass
        child.kill()
        child.wait()
        child.stdout.close()
        environment = open_lmdb(root)
        assert environment.condition(state) is Condition.CURRENT
        assert len(rows_of(environment, state)) == 500
        assert rows_of(environment, state)[0][1] == b"value-000000"
        environment.close(clean=False)
        assert verify_environments([path]) == []


def test_a_stopped_writer_does_not_stop_others_for_ever(root):
    """Waiting for the write lock has a deadline, and the error has a name."""
    environment = open_lmdb(root, lock_timeout_ms=50)
    state = fill(environment, 10)
    blocker = WriteLock(environment.path.with_name("00003.lock"), 1_000)
    with blocker.held(), pytest.raises(StateLockedError) as caught:
        environment.write_pending(Token(1, 2, 0), state, {})
    assert caught.value.retryable
    environment.write_pending(Token(1, 2, 0), state, {})
    environment.close(clean=False)


def test_destroyed_elsewhere_is_noticed(root):
    """A process must not go on with files that another one has deleted."""
    environment = open_lmdb(root)
    state = fill(environment, 10)
    open_lmdb(root).destroy()
    assert environment.condition(state) is Condition.EMPTY
    fill(environment, 5)
    environment.close(clean=False)


def test_a_pending_is_decoded_once_in_a_process(root, monkeypatch):
    """The process that wrote a pending reads it without decoding; another one decodes it."""
    environment = open_lmdb(root)
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"k", b"v")]})
    calls = []
    decode = lmdb_pendings.decode_pending
    monkeypatch.setattr(
        lmdb_pendings, "decode_pending", lambda blob: calls.append(1) or decode(blob)
    )
    state = committed(token, counts=1)
    assert rows_of(environment, state) == [(b"k", b"v")]
    assert calls == []
    environment.close(clean=False)
    environment = open_lmdb(root)
    for _ in range(3):
        assert rows_of(environment, state) == [(b"k", b"v")]
    assert calls == [1]
    environment.close(clean=False)


def test_verify_goes_on_behind_what_killed_it(root, tmp_path):
    """One bad environment does not hide the others, sound or bad."""
    paths = []
    for group in range(4):
        environment = open_lmdb(root, make_spec(group=group))
        fill(environment, 2_000)
        environment.close(clean=True)
        paths.append(environment.path)
    os.truncate(paths[1] / DATA, 4 * PAGE)
    os.truncate(paths[2] / DATA, 6 * PAGE)
    assert verify_environments([*paths, tmp_path / "absent"]) == [paths[1], paths[2]]


def test_directories_are_private(root):
    """Nobody else reads state."""
    path, _ = closed_environment(root)
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / DATA).stat().st_mode & 0o777 == 0o600
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700


def test_linked_directories_are_refused(root, tmp_path):
    """A link that someone placed would send our writes elsewhere."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    root.symlink_to(target)
    with pytest.raises(StateDirectoryError, match="symbolic link"):
        open_lmdb(root).condition(Committed())
    other = tmp_path / "other"
    other.mkdir()
    (other / "app").symlink_to(target)
    with pytest.raises(StateDirectoryError, match="symbolic link"):
        open_lmdb(other).condition(Committed())
    assert list(target.iterdir()) == []


def test_directories_open_to_others_are_refused(root):
    """Whoever can write to a directory can replace what is in it."""
    (root / "app").mkdir(parents=True)
    (root / "app").chmod(0o777)
    with pytest.raises(StateDirectoryError, match="others may write"):
        open_lmdb(root).condition(Committed())


def test_a_registry_opens_each_environment_once(root):
    """LMDB must not open a file twice in a process; too many open ones are closed, oldest first."""
    registry = EnvironmentRegistry(root, boot="one", open_max=2)
    first = registry.get(make_spec(group=0))
    state = fill(first, 3)
    assert registry.get(make_spec(group=0)) is first
    view = first.snapshot(state)
    registry.get(make_spec(group=1))
    registry.get(make_spec(group=2))
    assert registry.get(make_spec(group=0)) is first
    view.close()
    registry.get(make_spec(group=3))
    registry.get(make_spec(group=4))
    assert registry.get(make_spec(group=0)) is not first
    with pytest.raises(StateNotReadyError, match="another specification"):
        registry.get(make_spec(group=0, cluster_id="x"))
    registry.close_all(clean=True)
    assert rows_of(registry.get(make_spec(group=0)), state)
    registry.close_all(clean=False)


def test_a_fork_with_an_open_view_is_refused(root):
    """A child that let go of inherited files would end its parent's view."""
    environment = open_lmdb(root)
    state = fill(environment, 10)
    view = environment.snapshot(state)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            environment.condition(state)
        except StateNotReadyError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert view.get("counts", b"key-000001") == b"value-000001"
    view.close()
    environment.close(clean=False)
