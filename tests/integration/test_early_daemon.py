"""The parent of the workers, which imports while the JVM starts, and Spark takes for its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mustela.spark.early import hand_over
from tests.integration.own_process import run_quietly
from tests.patience import PATIENCE_S, looks

pytestmark = pytest.mark.spark

_BEGIN = """
import os, signal, sys
from pathlib import Path
from mustela.runtime.engine import EngineOptions
from mustela.spark import own_jvm

own_jvm.begin(EngineOptions(application_id="start", properties={"spark.master": "local[2]"}))
own_jvm.begin_jvm()
own_jvm.begin_jvm()  # as another engine of this process would: there is one already
(begun,) = own_jvm._BEGUN
early = begun.daemon._process.pid
"""

_OPEN = (
    _BEGIN
    + """
from mustela.spark.session import open_context
context = open_context("start", {"spark.master": "local[2]"})

def parents(_rows):
    yield os.getppid()

def run(function):
    return set(context.parallelize(range(2), 2).mapPartitions(function).collect())
"""
)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait_until_gone(*pids: int) -> None:
    assert any(looks(lambda: all(map(_is_gone, pids)))), pids


def test_workers_are_children_of_the_one_that_imported_before() -> None:
    """With Spark's environment, as if Spark had started it; at the end all of them go."""
    rest = """
def told(_rows):
    import signal
    names = "MUSTELA_EARLY_DAEMON", "PYTHONHASHSEED", "OMP_NUM_THREADS", "SPARK_REUSE_WORKER"
    yield os.getppid(), signal.getsignal(signal.SIGINT), *map(os.environ.get, names), os.getcwd()

import signal
assert run(told) == {
    (early, signal.default_int_handler, None, "0", "1", "1", os.getcwd())
}, run(told)
children = set(Path(f"/proc/{early}/task/{early}/children").read_text().split())
print(early, *children)
context.stop()
"""
    early, *workers = map(int, run_quietly(_OPEN + rest).split())
    assert len(workers) == 2
    _wait_until_gone(early, *workers)


def test_a_second_context_of_the_same_jvm_has_a_parent_of_its_own() -> None:
    """The first one's ended with it, and nobody waits at its socket."""
    rest = """
assert run(parents) == {early}
context.stop()
context = open_context("start", {"spark.master": "local[2]"})
(other,) = run(parents)
assert other != early
context.stop()
"""
    run_quietly(_OPEN + rest)


def test_spark_sees_its_end_and_starts_another() -> None:
    """What Spark watches ends with it."""
    rest = """
import time
assert run(parents) == {early}
for worker in Path(f"/proc/{early}/task/{early}/children").read_text().split():
    os.kill(int(worker), signal.SIGKILL)
os.kill(early, signal.SIGKILL)
for _ in range(100):
    try:
        (other,) = run(parents)
        break
    except Exception:
        time.sleep(0.1)
assert other != early
context.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN + rest],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("began", [_BEGIN, _OPEN + "\nassert run(parents) == {early}\n"])
def test_nothing_is_left_of_a_driver_that_is_killed(began: str) -> None:
    """Before Spark has asked, and behind that."""
    rest = """
children = Path(f"/proc/{early}/task/{early}/children").read_text().split()
print(early, begun.starting._process.pid, *children, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", began + rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        assert driver.stdout is not None
        pids = list(map(int, driver.stdout.readline().split()))
        assert len(pids) == (2 if began == _BEGIN else 4)
        driver.send_signal(signal.SIGKILL)
    _wait_until_gone(*pids)


_DOZE = """
import time

def told():
    with open(f"/proc/{early}/cmdline") as words, open(f"/proc/{early}/smaps_rollup") as sizes:
        anonymous = sum(int(line.split()[1]) for line in sizes if line.startswith("Pss_Anon"))
        return "dozing" in words.read(), anonymous

def wait_until(dozes):
    for _ in range(600):
        if told()[0] is dozes:
            return
        time.sleep(0.05)
    raise AssertionError(told())

assert run(parents) == {early}
awake = told()[1]
wait_until(True)
"""


def test_one_that_is_asked_for_nothing_dozes_and_wakes_up_for_the_next_worker() -> None:
    """It is the same process, with hardly any memory; its workers go on, and Spark ends them."""
    rest = """
asleep = told()[1]
assert asleep < min(8000, awake / 3), (awake, asleep)
def workers(_rows):
    yield os.getpid()
before = run(workers)
assert run(parents) == {early}
assert told()[0]
for worker in before:
    os.kill(worker, signal.SIGKILL)
while any(os.path.exists(f"/proc/{worker}") for worker in before):
    time.sleep(0.01)
for _ in range(100):
    try:
        after = run(workers)
        break
    except Exception:
        time.sleep(0.1)
assert not before & after
assert run(parents) == {early}
wait_until(True)
children = Path(f"/proc/{early}/task/{early}/children").read_text().split()
print(early, *children)
context.stop()
"""
    early, *workers = map(int, run_quietly(_OPEN + _DOZE + rest).split())
    assert workers
    _wait_until_gone(early, *workers)


@pytest.mark.parametrize("whom", ["the driver", "the parent"])
def test_nothing_is_left_of_workers_whose_parent_dozes(whom: str) -> None:
    """Neither if the driver is killed, nor if the parent is told to end."""
    rest = """
children = Path(f"/proc/{early}/task/{early}/children").read_text().split()
(path,) = [p for p in Path(f"/proc/{early}/cmdline").read_text().split(chr(0)) if ".sock" in p]
print(early, *children, path, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", _OPEN + _DOZE + rest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as driver:
        assert driver.stdout is not None
        *pids, path = driver.stdout.readline().decode().split()
        assert len(pids) == 3
        assert Path(path).is_socket()
        if whom == "the driver":
            driver.send_signal(signal.SIGKILL)
        else:
            os.kill(int(pids[0]), signal.SIGTERM)
        _wait_until_gone(*map(int, pids))
        assert not Path(path).exists()
        driver.kill()


def test_one_that_does_not_wait_is_not_waited_for(tmp_path: Path) -> None:
    """Then who asks goes on by itself."""
    assert not hand_over(tmp_path / "nobody", [])
    left = tmp_path / "left"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(left))
    assert not hand_over(left, [])


def test_a_directory_with_a_long_name_has_none(tmp_path: Path) -> None:
    """A socket's name may have a hundred bytes."""
    from mustela.spark.early import EarlyDaemon

    assert EarlyDaemon.start(tmp_path / ("x" * 100), dict(os.environ), lambda: None) is None
