"""What several hosts cannot do is refused before the start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mustela import Materialized, StreamsBuilder
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.engine import EngineOptions
from mustela.spark.engine import SparkEngine
from mustela.spark.hosts import MemoryStateOnHostsError, UnloggedStoreError, check_hosts

MASTER = "spark://master:7077"


def table(*, logged: bool) -> Plan:
    builder = StreamsBuilder()
    materialized = Materialized(store="prices", logged=logged)
    builder.table("prices", key=str, value=int, materialized=materialized)
    return plan(builder.build())


def engine(master: str, state_backend: str) -> SparkEngine:
    made = SparkEngine()
    conf = SimpleNamespace(getAll=list)
    known = SimpleNamespace(getExecutorInfos=lambda: ["driver", "executor"])
    java = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: known))
    context = SimpleNamespace(defaultParallelism=2, _jsc=java, getConf=lambda: conf, master=master)
    made.start(
        EngineOptions(
            application_id="a", properties={}, session=context, state_backend=state_backend
        )
    )
    return made


def test_several_hosts_do_not_run_a_store_that_has_no_changelog() -> None:
    """It would begin empty wherever its lane goes; the error names the user's line."""
    with pytest.raises(UnloggedStoreError, match="store 'prices' has no changelog") as caught:
        engine(MASTER, "lmdb").check(table(logged=False))
    assert caught.value.at is not None
    assert caught.value.at.file == __file__
    assert caught.value.fix is not None
    assert "logged=True" in caught.value.fix


def test_the_fix_of_a_store_that_has_no_changelog_helps() -> None:
    """With a changelog on several hosts, or without one on a single host."""
    check_hosts(table(logged=True), master=MASTER, state_backend="lmdb")
    engine("local[*]", "memory").check(table(logged=False))


def test_several_hosts_do_not_keep_state_in_memory() -> None:
    """Nobody would give the room back; on disk it can be kept."""
    with pytest.raises(MemoryStateOnHostsError, match="is memory, and spark:"):
        engine(MASTER, "memory").check(table(logged=True))
    engine(MASTER, "lmdb").check(table(logged=True))
