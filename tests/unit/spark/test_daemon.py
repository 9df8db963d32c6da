"""The parent of the workers imports what is compiled already."""

from __future__ import annotations

import gc
import inspect
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark import daemon as sparks

from mustela.spark import daemon
from mustela.spark.daemon import but_for_broken_pipes, without_archives

pytestmark = pytest.mark.slow

LIB = Path(pyspark.__file__).parent / "python" / "lib"
ARCHIVES = [str(path) for path in sorted(LIB.glob("*.zip"))]


@pytest.fixture
def collects_again() -> Iterator[None]:
    """Python's collector works again after a test that made this process a worker."""
    yield
    gc.enable()


def test_the_archives_of_the_installed_spark_are_left_out() -> None:
    """Whatever else is on the path stays, in its order."""
    assert len(ARCHIVES) == 2
    rest = ["", *sys.path]
    assert without_archives([*ARCHIVES, *rest]) == rest


def test_the_archives_of_another_spark_stay() -> None:
    """A cluster's hosts may have no package, or another version of it."""
    path = ["/opt/spark/python/lib/pyspark.zip", *sys.path]
    assert without_archives(path) == path


def test_archives_are_used_where_nothing_is_installed(tmp_path: Path) -> None:
    """There is nothing else to import then."""
    path = [*ARCHIVES, str(tmp_path)]
    assert without_archives(path) == path


def test_a_daemon_imports_the_package() -> None:
    """With the path that Spark gives it."""
    code = (
        "import sys; from mustela.spark.daemon import but_for_broken_pipes, without_archives;"
        "sys.path[:] = without_archives(sys.path); import pyspark.worker; print(pyspark.__file__)"
    )
    path = os.pathsep.join([*ARCHIVES, os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == pyspark.__file__


def test_a_worker_is_used_again_with_what_it_has_put_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first tasks bring the program; later ones leave nothing more, hooks neither."""
    tasks: list[bool] = []
    frozen: list[int] = []
    looks: list[int] = []

    def worker(_socket: socket.socket, authenticated: bool) -> int:
        tasks.append(authenticated)
        return 0

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    garbage = SimpleNamespace(
        take_over=lambda: looks.append(len(tasks)),
        freeze=lambda: frozen.append(len(tasks)),
        between_tasks=lambda: looks.append(len(tasks)),
    )
    monkeypatch.setattr(daemon, "GARBAGE", garbage)
    run = daemon.used_again(worker)
    with socket.socket() as idle:
        assert run(idle, False) == 0
        hook = sys.unraisablehook
        assert [run(idle, True) for _ in range(30)] == [0] * 30
    assert frozen == [1, 3, 10]
    assert looks == [0, 2, *range(4, 10), *range(11, 32)]
    assert sys.unraisablehook is hook


def test_sparks_daemon_looks_for_garbage_nowhere_else() -> None:
    """A new PySpark may use more of the module that is taken from it."""
    assert re.findall(r"\bgc\b.*", inspect.getsource(sparks)) == ["gc", "gc.collect()"]
    module: Any = sparks
    before = module.gc
    try:
        daemon.leave_garbage(module)
        assert module.gc.collect() == 0
        assert module.gc is not before
    finally:
        module.gc = before


@pytest.mark.usefixtures("collects_again")
def test_a_worker_whose_socket_spark_closes_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an idle one is ended; any other error is told."""

    def worker(_socket: socket.socket, _authenticated: bool) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with socket.socket() as idle:
        assert daemon.used_again(worker)(idle, True) == 1


@pytest.mark.parametrize(("error", "reported"), [(BrokenPipeError, 0), (ValueError, 1)])
def test_a_buffer_that_spark_has_closed_is_not_worth_a_traceback(
    error: type[Exception], reported: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anything else that cannot be raised is reported as before."""
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", but_for_broken_pipes(seen.append))

    class Buffer:
        def __del__(self) -> None:
            raise error

    buffer: Buffer | None = Buffer()
    del buffer
    assert len(seen) == reported
