"""What each thread of a tree of processes uses."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.threads import Spent, Thread, look, part_of
from tests.patience import looks

_WORKS = """
import threading, time
threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
while True:
    pass
"""


def test_a_thread_that_works_is_told_from_one_that_waits() -> None:
    """In a process that the root has started, too."""
    words = [sys.executable, "-c", _WORKS]
    starts = f"import subprocess; subprocess.run({words!r})"
    with subprocess.Popen([sys.executable, "-c", starts]) as root:
        try:
            found: dict[Thread, Spent] = {}
            worked: list[Thread] = []
            for found in looks(lambda: look(root.pid)):
                worked = [thread for thread, spent in found.items() if spent.ns > 200_000_000]
                if worked and worked[0].role == "worker" and len(found) >= 3:
                    break
            (busy,) = worked
            assert busy.role == "worker"
            assert busy.number == busy.pid
            assert busy.name.endswith(" (main)")
            beside = [thread for thread in found if thread.pid == busy.pid and thread != busy]
            assert [found[thread].ns < 100_000_000 for thread in beside] == [True]
            assert {thread.role for thread in found if thread.pid == root.pid} == {"driver"}
        finally:
            for pid in {thread.pid for thread in look(root.pid)} - {root.pid}:
                subprocess.run(["kill", str(pid)], check=False)
            root.kill()


def test_threads_of_one_name_are_one_row_and_the_dearest_is_first() -> None:
    one, other = Thread("jvm", 1, 2, "task"), Thread("jvm", 1, 3, "task")
    loop = Thread("driver", 5, 5, "python (main)")
    before = {one: Spent(0, 0), loop: Spent(1_000_000_000, 7)}
    after = {
        one: Spent(10_000_000, 1),
        other: Spent(30_000_000, 3),
        loop: Spent(1_100_000_000, 27),
    }
    part = part_of(before, after, 2.0)
    assert part.threads == [
        ("driver", "python (main)", 5.0, 10.0),
        ("jvm", "task", 2.0, 2.0),
    ]
    assert part.percent == {"driver": 5.0, "jvm": 2.0}
    assert part.total == 7.0
