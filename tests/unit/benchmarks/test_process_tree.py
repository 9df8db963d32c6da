"""CPU time of a tree of processes: nothing is lost or counted twice when some of them end."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from benchmarks.process_tree import ProcessStat, ProcessTree, parse_stat

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid: int, parent: int, own: int = 0, children: int = 0, **more: int) -> ProcessStat:
    return ProcessStat(
        pid=pid,
        parent=parent,
        session=more.get("session", 1),
        state="S",
        start=more.get("start", pid),
        own=own,
        children=children,
    )


def table(*stats: ProcessStat) -> dict[int, ProcessStat]:
    return {one.pid: one for one in stats}


def test_a_command_with_brackets_and_spaces_is_read() -> None:
    """The fields are counted from the last closing bracket."""
    text = "42 (a (b) c) S 7 42 9 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 999 0"
    found = parse_stat(text)
    assert (found.pid, found.parent, found.session, found.own, found.children, found.start) == (
        42,
        7,
        9,
        23,
        27,
        999,
    )


def test_a_reaped_child_lives_on_in_its_parent() -> None:
    """Its time moves to the parent's children's time and is not counted again."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1, own=100), stat(11, 10, own=300)))
    assert tree.cpu_seconds() == 400 / TICKS
    tree.update(table(stat(10, 1, own=100, children=310)))
    assert tree.cpu_seconds() == 410 / TICKS


def test_a_child_that_nobody_waits_for_is_remembered() -> None:
    """A parent that ignores its children gets none of their time."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1, own=100), stat(11, 10, own=300)))
    tree.update(table(stat(10, 1, own=120)))
    assert tree.cpu_seconds() == 420 / TICKS


def test_two_children_cannot_be_credited_with_the_same_time() -> None:
    """One was waited for, the other was not."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1), stat(11, 10, own=300), stat(12, 10, own=300)))
    tree.update(table(stat(10, 1, children=300)))
    assert tree.cpu_seconds() == 600 / TICKS


def test_an_orphan_stays_in_the_tree() -> None:
    """It has another parent after its own ended, and goes on counting."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1, own=50), stat(11, 10, own=5), stat(12, 11, own=7)))
    tree.update(table(stat(10, 1, own=50, children=5), stat(12, 1, own=9)))
    assert tree.cpu_seconds() == 64 / TICKS


def test_a_process_that_inherits_a_number_is_another_process() -> None:
    """Process numbers come again."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1), stat(11, 10, own=300)))
    tree.update(table(stat(10, 1), stat(11, 1, own=999, start=77)))
    assert tree.cpu_seconds() == 300 / TICKS


def test_a_process_of_the_same_session_belongs_to_the_tree() -> None:
    """It may have been given to another parent before the first look."""
    tree = ProcessTree(10)
    tree.update(table(stat(10, 1, session=10), stat(50, 1, own=20, session=10)))
    assert tree.cpu_seconds() == 20 / TICKS


@pytest.mark.slow
def test_real_children_of_real_children_are_measured() -> None:
    """A burning grandchild that ends before the last look is counted, and is counted once."""
    burn = "import time\nend=time.process_time()+0.5\nwhile time.process_time()<end: pass"
    program = (
        "import subprocess,sys\n"
        f"subprocess.run([sys.executable,'-c',{burn!r}])\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    tree = ProcessTree(process.pid)
    assert process.stdout is not None
    try:
        while not select.select([process.stdout], [], [], 0.02)[0]:
            tree.update()
        tree.update()
        assert tree.pids() == [process.pid]
        assert 0.5 <= tree.cpu_seconds() < 2.0
    finally:
        process.kill()
        process.communicate()
