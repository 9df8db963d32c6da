"""Statements in a process of their own, which has nothing but rows."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.sql.asking import ask
from mustela.sql.errors import SqlLimitError, SqlTimeoutError
from mustela.sql.process import SqlLimits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver():
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    with TopologyTestDriver(builder) as made:
        made.create_input_topic("prices").pipe_key_value_list([("pen", 3), ("ink", 12)])
        yield made


def test_a_statement_that_does_not_end_is_ended(driver):
    """At its deadline, whatever it does; the next one is answered."""
    endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"
    with pytest.raises(SqlTimeoutError):
        driver.sql(endless, timeout=timedelta(seconds=2))
    assert driver.sql("select 1").rows == [(1,)]


def test_a_result_and_its_memory_have_bounds(driver):
    """Rows, bytes and memory: each is an error that says which, and its fix helps."""
    with pytest.raises(SqlLimitError) as refused:
        driver.sql("select * from range(2000)", rows_max=1_000)
    assert refused.value.fields["limit"] == "rows"
    assert len(driver.sql("select * from range(2000) limit 1000", rows_max=1_000)) == 1_000
    limits = SqlLimits(size=1 << 20)
    with pytest.raises(SqlLimitError) as refused:
        ask(driver.queries, "select repeat('x', 100) from range(1000000)", limits=limits)
    assert refused.value.fields["limit"] == "size"
    with pytest.raises(SqlLimitError) as refused:
        driver.sql("select n from range(30000000) t(n) order by hash(n), n limit 1 offset 20000000",
                   memory_mb=32)  # fmt: skip
    assert refused.value.fields["limit"] == "memory"


def test_the_process_has_no_environment_no_files_and_limits(driver, monkeypatch, tmp_path):
    """While it runs a statement: one socket, nothing to open, nothing of this process."""
    from mustela.sql import process

    monkeypatch.setenv("MUSTELA_SECRET", "not to be seen")
    seen = {}
    batches = process.StoreTable.batches

    def looked(self, *given):
        root = f"/proc/{taken[-1].pid}"
        seen["environment"] = Path(f"{root}/environ").read_bytes()
        seen["files"] = {os.readlink(f"{root}/fd/{n}") for n in os.listdir(f"{root}/fd")}
        seen["limits"] = Path(f"{root}/limits").read_text()
        return batches(self, *given)

    taken = []
    take = process.SERVER.take
    monkeypatch.setattr(process.SERVER, "take", lambda: taken.append(take()) or taken[-1])
    monkeypatch.setattr(process.StoreTable, "batches", looked)
    with open(tmp_path / "secret", "w") as held:
        os.set_inheritable(held.fileno(), True)
        assert driver.sql("select key from prices where value > 5").rows == [("ink",)]
    assert seen["environment"] == b""
    assert {name.partition(":")[0] for name in seen["files"]} == {"socket", "/dev/null"}
    limits = {line[:26].strip(): line[26:].split()[:2] for line in seen["limits"].splitlines()}
    assert limits["Max open files"] == ["0", "0"]
    assert limits["Max file size"] == ["0", "0"]
    assert limits["Max cpu time"] == ["32", "32"]
    assert int(limits["Max address space"][0]) < 4 << 30
    assert not Path(f"/proc/{taken[-1].pid}").exists()
