"""Processes that are begun before their statement is there."""

from __future__ import annotations

import os
import signal

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.sql import process, spare
from mustela.sql.spare import Spare

pytestmark = pytest.mark.slow


@pytest.fixture
def begun(monkeypatch):
    """The processes that were begun, while one is kept for the next statement."""
    children = []
    started = spare._started

    def counted(theirs):
        children.append(started(theirs))
        return children[-1]

    kept = Spare(kept_s=300)
    monkeypatch.setattr(process, "SPARE", kept)
    monkeypatch.setattr(spare, "_started", counted)
    yield children
    kept.stop()


@pytest.fixture(scope="module")
def driver():
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    with TopologyTestDriver(builder) as made:
        made.create_input_topic("prices").pipe_key_value_list([("pen", 3), ("ink", 12)])
        yield made


def test_each_statement_has_a_process_of_its_own_that_was_begun_before(driver, begun):
    """The second one finds a process, which no other statement has had."""
    for number in (1, 2, 3):
        assert driver.sql("select sum(value) from prices").rows == [(15,)]
        assert len(begun) == number + 1  # one that has ended each, and the next one's
        assert [one.poll() is None for one in begun] == [False] * number + [True]


def test_a_process_that_died_while_it_waited_is_replaced(driver, begun):
    """Nobody hears of it."""
    driver.sql("select 1")
    os.kill(begun[-1].pid, signal.SIGKILL)
    os.waitid(os.P_PID, begun[-1].pid, os.WEXITED | os.WNOWAIT)
    assert driver.sql("select count(*) from prices").rows == [(2,)]
    assert len(begun) == 4  # the first, the dead one, its substitute, and the next one


def test_the_memory_a_statement_may_use_is_its_own(driver, begun):
    """The process was begun before anybody knew how much that would be."""
    driver.sql("select 1")
    found = driver.sql("select current_setting('memory_limit')", memory_mb=64).rows
    assert found == [("64.0 MiB",)]
    assert len(begun) == 3


def test_nothing_waits_for_longer_than_it_is_told_to(begun):
    """A process that nobody needs is ended, and asked for anew."""
    kept = Spare(kept_s=0.05)
    kept.renew()
    (waiting,) = begun
    assert waiting.wait(timeout=60) == -signal.SIGKILL
    child = kept.take()
    assert child.lives
    child.stop()


def test_two_never_get_the_same_process(begun):
    """Also where none waits."""
    kept = Spare(kept_s=300)
    kept.renew()
    taken = [kept.take(), kept.take()]
    assert len({id(child.end) for child in taken}) == len(begun) == 2
    kept.stop()  # what is taken is not its own any more
    assert all(child.lives for child in taken)
    for child in taken:
        child.stop()
