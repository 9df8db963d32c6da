"""The JVM that Spark runs in: started in silence, with or without an archive of classes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from mustela.java import find_java
from mustela.spark import archive as archives
from mustela.spark.archive import make_aside
from mustela.spark.jvm import (
    MODULE_OPTIONS,
    archive_directory,
    archive_name,
    archive_sum,
    find_archive,
)
from tests.integration.own_process import run_quietly
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.spark

_START = """
from mustela.spark.session import open_context
context = open_context("start", {"spark.master": "local[1]"})
print(context.parallelize([1, 2], 1).sum(), context._gateway.proc is not None)
context.stop()
"""


_DROPPED = """
import time
from pathlib import Path
from mustela.spark.archive_pages import ArchivePages, read_only_spans
def sizes():
    lines = Path(f"/proc/{context._gateway.proc.pid}/smaps").read_text().splitlines()
    of = [line.startswith("Rss:") and int(line.split()[1]) for line in lines]
    return len(read_only_spans(lines)), sum(of)
before = sizes()
pages = ArchivePages(context)
def again():
    deadline = time.time() + 60
    while time.time() < deadline:
        now = sizes()
        if before[1] - now[1] > 30_000:
            return now[0], True
        time.sleep(0.05)
    return now[0], False
print(before[0], *again())
context._jvm.System.gc()
print(*again())
pages.close()
pages.give_back()
print(context.parallelize([1, 2], 1).sum())
context.stop()
"""


def _start(cache: Path, program: str = _START, /, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **more},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )


def test_the_options_are_those_of_sparks_own_launcher() -> None:
    """A new PySpark may open other packages: this fails then."""
    home = Path(pyspark.__file__).parent
    launcher = [str(find_java().executable), "-cp", f"{home}/jars/*"]
    launcher += ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    said = subprocess.run(
        [*launcher, "--conf", "spark.master=local[1]", "pyspark-shell"],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        check=True,
    )
    words = [word.decode() for word in said.stdout.split(b"\0")]
    given = words[words.index("-Xmx1g") + 1 : words.index("org.apache.spark.deploy.SparkSubmit")]
    assert [word for word in given if word != "--add-modules=jdk.incubator.vector"] == list(
        MODULE_OPTIONS
    )


def test_a_start_prints_nothing(tmp_path: Path) -> None:
    """Neither warnings that every start would print, nor anything else."""
    done = _start(tmp_path)
    assert done.stdout == "3 True\n"
    assert done.stderr == ""


_LEARN = """
print(type(context._jvm.org.apache.spark.ml.feature.VectorAssembler).__name__)
context.stop()
"""


@pytest.mark.parametrize(
    ("before", "found"), [("", "JavaPackage"), ("import pyspark.ml", "JavaClass")]
)
def test_jars_for_machine_learning_are_there_for_who_imports_it(
    tmp_path: Path, before: str, found: str
) -> None:
    """Any other program does without what their directories take in memory."""
    done = _start(tmp_path, before + _START.replace("context.stop()", _LEARN))
    assert (done.stdout, done.stderr) == (f"3 True\n{found}\n", "")


def test_what_only_sparks_launcher_knows_is_left_to_it(tmp_path: Path) -> None:
    """A program that gives the launcher arguments gets the launcher."""
    done = _start(tmp_path, PYSPARK_SUBMIT_ARGS="pyspark-shell")
    assert done.stdout == "3 True\n"
    assert "spark" in done.stderr  # the launcher's JVM says which log settings it takes


_BEGIN = """
import sys
from mustela.runtime.engine import EngineOptions
from mustela.spark import own_jvm
own_jvm.begin(EngineOptions(application_id="start", properties={"spark.master": "local[1]"}))
own_jvm.begin_jvm()
assert "pyspark" not in sys.modules
(begun,) = own_jvm._BEGUN
process = begun.starting._process
"""


def test_the_jvm_that_has_begun_to_start_is_the_one_of_the_context(tmp_path: Path) -> None:
    """It starts before PySpark is imported."""
    rest = """
from mustela.spark.session import open_context
context = open_context("start", {"spark.master": "local[1]"})
assert context._gateway.proc is process
assert context.parallelize([1, 2], 1).sum() == 3
assert not own_jvm._BEGUN
context.stop()
"""
    run_quietly(_BEGIN + rest, XDG_CACHE_HOME=str(tmp_path))


def test_a_jvm_that_was_begun_for_others_is_ended(tmp_path: Path) -> None:
    """Its heap may be too small."""
    rest = """
from mustela.spark.session import open_context
context = open_context("start", {"spark.master": "local[1]", "spark.driver.memory": "600m"})
assert context._gateway.proc is not process
assert process.poll() is not None
assert not begun.scratch.exists()
context.stop()
"""
    run_quietly(_BEGIN + rest, XDG_CACHE_HOME=str(tmp_path))


def test_an_engine_that_does_not_start_ends_what_has_begun(tmp_path: Path) -> None:
    """As after a check before the start that found something wrong."""
    rest = """
from mustela.spark.engine import SparkEngine
SparkEngine().stop()
assert process.poll() is not None
assert not begun.scratch.exists()
assert not own_jvm._BEGUN
"""
    run_quietly(_BEGIN + rest, XDG_CACHE_HOME=str(tmp_path))


_HANG = _START.replace("context.stop()", "print(flush=True); input()")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files whose name is short enough for Spark's sockets."""
    with tempfile.TemporaryDirectory(prefix="mt-", dir="/tmp", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.mark.slow
def test_a_killed_start_leaves_what_the_next_one_deletes(tmp_path: Path, temporary: Path) -> None:
    """Whatever Spark writes is in one place."""
    variables = {"TMPDIR": str(temporary)}
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **variables}
    command = [sys.executable, "-c", _HANG]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"3 True\n"
        process.kill()
    (left,) = temporary.iterdir()
    assert left.name.startswith("mustela-spark-")
    assert _start(tmp_path, **variables).stderr == ""
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_start_uses_an_archive_of_classes_and_survives_a_bad_one(tmp_path: Path) -> None:
    """A cut file and bytes that are no archive cost time, and nothing else."""
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    alone = archive_directory(variables) / "an-archive-that-is-gone.seen"
    alone.parent.mkdir(parents=True)
    alone.touch()
    make_aside(variables)
    assert archives._MAKERS[-1].wait(PATIENCE_S) == 0
    assert not alone.exists()
    archive = find_archive(find_java(), variables)
    assert archive is not None
    # Elsewhere than where it belongs all of it would be written; so two thirds can be dropped.
    done = _start(tmp_path, _START.replace("context.stop()", _DROPPED))
    assert (done.stdout, done.stderr) == ("3 True\n2 2 True\n2 True\n3\n", "")

    sound = archive.read_bytes()
    archive.chmod(0o600)
    archive.write_bytes(sound[: len(sound) // 2])
    done = _start(tmp_path)
    assert (done.stdout, done.stderr, archive.exists()) == ("3 True\n", "", False)
    # One whose name is right and that is no archive: the JVM looks for itself.
    archive.write_bytes(b"no archive" * 1000)
    archive.rename(archive.with_name(f"{archive_name(find_java())}-{archive_sum(archive)}.jsa"))
    done = _start(tmp_path)
    assert (done.stdout, done.stderr) == ("3 True\n", "")
