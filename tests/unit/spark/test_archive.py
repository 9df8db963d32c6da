"""When an archive of classes is made in the background, and when not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from mustela.java import Java
from mustela.spark import archive, hold, jvm
from mustela.spark.archive import make_aside
from mustela.spark.engine import SparkEngine
from mustela.spark.jvm import archive_directory, archive_name, archive_sum, find_archive
from tests.unit.spark.test_engine import context_of

JAVA = Java(home=Path("/opt/java"), version="17.0.1", executable=Path("/opt/java/bin/java"))


class World:
    """A user's cache, and what was started to fill it."""

    def __init__(self, cache: Path) -> None:
        self.variables = {"XDG_CACHE_HOME": str(cache), "PATH": "/bin"}
        self.directory = archive_directory(self.variables)
        self.started: list[list[str]] = []

    def start(self, command: list[str], **_: Any) -> subprocess.Popen[bytes]:
        self.started.append(command)
        return subprocess.Popen(["true"])

    def put(self, name: str, body: bytes) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / name
        file.write_bytes(body)
        return file


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setattr(archive, "find_java", lambda _variables: JAVA)
    monkeypatch.setattr(archive, "_start_maker", lambda command, *_: made.start(command))
    return made


def test_an_archive_that_is_missing_is_made(world: World) -> None:
    """By a process of its own."""
    make_aside(world.variables)
    assert [command[1:] for command in world.started] == [
        ["-m", "mustela.spark.archive", "--if-missing"]
    ]


def test_one_that_is_there_is_not_made_again(world: World, tmp_path: Path) -> None:
    """One that is damaged is."""
    body = tmp_path / "body"
    body.write_bytes(b"classes")
    file = world.put(f"{archive_name(JAVA)}-{archive_sum(body)}.jsa", b"classes")
    make_aside(world.variables)
    assert not world.started
    file.write_bytes(b"classez")
    make_aside(world.variables)
    assert len(world.started) == 1


def test_what_failed_for_a_java_is_not_tried_again(world: World) -> None:
    """It would fail, and cost seconds, at each stop."""
    world.put(f"{archive_name(JAVA)}.gave-up", b"")
    make_aside(world.variables)
    assert not world.started


def test_a_cache_that_cannot_be_written_is_no_error(world: World, tmp_path: Path) -> None:
    """Starts go on without an archive."""
    (tmp_path / "mustela").write_text("a file where the directory would be")
    make_aside(world.variables)
    assert not world.started


def test_a_failure_is_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maker itself fails aloud: nobody but who started it by hand reads that."""

    def fail() -> Path:
        raise OSError("no room")

    monkeypatch.setattr(archive, "find_java", lambda: JAVA)
    monkeypatch.setattr(archive, "archive_directory", lambda: world.directory)
    monkeypatch.setattr(archive, "make_archive", fail)
    monkeypatch.setattr(archive.os, "nice", lambda _more: 0)
    world.directory.mkdir(parents=True)
    with pytest.raises(OSError, match="no room"):
        archive.main(["--if-missing"])
    assert (world.directory / f"{archive_name(JAVA)}.gave-up").exists()


def test_two_do_not_make_one_at_a_time(tmp_path: Path) -> None:
    """Whoever comes second leaves it to the first."""
    with archive._alone(tmp_path / "lock") as first, archive._alone(tmp_path / "lock") as second:
        assert (first, second) == (True, False)


@pytest.mark.parametrize(
    ("wanted", "own", "master", "made"),
    [
        (True, True, "local[2]", 1),
        (False, True, "local[2]", 0),
        (True, False, "local[2]", 0),
        (True, True, "spark://host:7077", 0),
    ],
)
def test_a_stop_has_it_made_where_a_start_would_use_it(
    monkeypatch: pytest.MonkeyPatch, *, wanted: bool, own: bool, master: str, made: int
) -> None:
    """Not for a session of the user's, nor where Spark's launcher starts the JVM."""
    calls: list[None] = []
    monkeypatch.setattr(hold, "make_aside", lambda: calls.append(None))
    monkeypatch.setattr(hold, "release_context", lambda *_: None)
    stopped = SparkEngine()
    stopped._context, stopped._own = context_of(), own
    stopped._properties, stopped._class_archive = {"spark.master": master}, wanted
    stopped.stop()
    assert len(calls) == made


def test_an_archive_is_read_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its size and its time tell that it is the same."""
    body = tmp_path / "body"
    body.write_bytes(b"classes")
    file = world.put(f"{archive_name(JAVA)}-{archive_sum(body)}.jsa", b"classes")
    reads: list[Path] = []

    def read(read: Path) -> str:
        reads.append(read)
        return archive_sum(read)

    monkeypatch.setattr(jvm, "archive_sum", read)
    assert [find_archive(JAVA, world.variables) for _ in range(3)] == [file] * 3
    assert len(reads) == 1
    file.write_bytes(b"class")
    assert find_archive(JAVA, world.variables) is None
    assert not file.exists()


def test_the_command_makes_one_for_a_user_who_has_no_cache_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that was never used before: `./dev test` begins with it."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(archive, "find_java", lambda *_: JAVA)
    monkeypatch.setattr(archive.os, "nice", lambda _by: 0)
    made: list[bool] = []
    monkeypatch.setattr(archive, "make_archive", lambda: made.append(True))
    archive.main(["--if-missing"])
    assert made == [True]
    assert archive_directory().is_dir()
