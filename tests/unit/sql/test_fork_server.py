"""Processes that are forked from one that has loaded what they need."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.sql import process
from mustela.sql.errors import SqlEndedError
from mustela.sql.fork_server import ForkServer
from tests.patience import looks

pytestmark = pytest.mark.slow


class Told(ForkServer):
    """Tells which processes it forked."""

    def __init__(self, *, kept_s):
        super().__init__(kept_s=kept_s)
        self.taken = []

    def take(self):
        self.taken.append(super().take())
        return self.taken[-1]


@pytest.fixture
def server(monkeypatch):
    """What forks, and tells which processes it forked."""

    kept = Told(kept_s=300)
    monkeypatch.setattr(process, "SERVER", kept)
    yield kept
    kept.stop()


@pytest.fixture(scope="module")
def driver():
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    with TopologyTestDriver(builder) as made:
        made.create_input_topic("prices").pipe_key_value_list([("pen", 3), ("ink", 12)])
        yield made


def there(pid):
    return Path(f"/proc/{pid}").exists()


def test_each_statement_has_a_process_of_its_own_of_the_same_parent(driver, server):
    """It is gone with its statement, and leaves nothing for its parent to bury."""
    for number in (1, 2, 3):
        assert driver.sql("select sum(value) from prices").rows == [(15,)]
        assert len({child.pid for child in server.taken}) == number
        assert not any(there(child.pid) for child in server.taken)
        parent = server.pid
        assert there(parent)
    driver.sql("select 1")
    assert server.pid == parent


def test_the_parent_never_has_a_second_thread_of_duckdb(driver, server):
    """A thread that a fork has not got might have held what the fork needs."""
    driver.sql("select 1")
    names = [
        (task / "comm").read_text().strip() for task in Path(f"/proc/{server.pid}/task").iterdir()
    ]
    assert len([name for name in names if not name.startswith("jemalloc")]) <= 2, names


def test_a_parent_that_died_is_replaced(driver, server):
    """Nobody hears of it."""
    driver.sql("select 1")
    first = server.pid
    os.kill(first, signal.SIGKILL)
    assert driver.sql("select count(*) from prices").rows == [(2,)]
    assert server.pid != first


def test_where_no_parent_lives_that_is_said(driver, server, monkeypatch):
    """After a second try."""
    begun = []
    began = ForkServer._begun

    def dies(self):
        door = began(self)
        begun.append(self.pid)
        self._process.kill()
        self._process.wait()
        return door

    monkeypatch.setattr(ForkServer, "_begun", dies)
    with pytest.raises(SqlEndedError):
        driver.sql("select 1")
    assert len(begun) == 2
    assert server.pid is None


def test_the_memory_a_statement_may_use_is_its_own(driver, server):
    """Its parent was begun before anybody knew how much that would be."""
    driver.sql("select 1")
    found = driver.sql("select current_setting('memory_limit')", memory_mb=64).rows
    assert found == [("64.0 MiB",)]


def test_the_parent_stays_as_long_as_it_is_told_to_and_as_somebody_needs_it(server):
    """A process that nobody needs is ended, and begun anew."""
    server._kept_s = 0.05
    first, second = server.take(), server.take()
    parent = server.pid
    first.stop()
    assert server._end is None
    assert second.lives
    second.stop()
    for gone in looks(lambda: not there(parent)):
        if gone:
            break
    third = server.take()
    assert third.lives
    third.stop()


def test_two_never_get_the_same_process(server):
    """And what is taken goes on when its parent ends."""
    taken = [server.take(), server.take()]
    assert taken[0].pid != taken[1].pid
    server.stop()
    assert all(child.lives for child in taken)
    for child in taken:
        child.stop()


def test_the_parent_ends_with_the_application(server):
    """It reads the end of its socket; nobody has to kill it."""
    child = server.take()
    child.stop()
    door, parent = server._door, server._process
    door.close()
    assert parent.wait(timeout=60) == 0
