"""What a host must have to read any key of a store."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import ContextualProcessor, Materialized, StreamsBuilder
from mustela.plan.epoch import Program
from mustela.planner.planner import plan
from mustela.spark.any_key import UnloggedReadError, check_hosts


class Ask(ContextualProcessor[Any, Any, Any, Any]):
    """Reads a table."""

    def process(self, record: Any) -> None:
        self.context.any_key_store("prices").get(record.key)


def program(*, logged: bool) -> Program:
    builder = StreamsBuilder()
    materialized = Materialized(store="prices", logged=logged)
    builder.table("prices", key=str, value=int, materialized=materialized)
    builder.stream("in", key=str, value=str).process(Ask, reads=["prices"], name="ask")
    return Program(
        identity="i",
        application_id="app",
        cluster_id="c",
        plan=plan(builder.build()),
        lanes=2,
        key_groups=4,
        guarantee="exactly_once",
        kernel={},
        consumer={},
        producer={},
        state_dir="/nowhere",
    )


def test_several_hosts_do_not_read_a_store_that_has_no_changelog() -> None:
    """It would be found on one host alone; the error names the step and its line."""
    with pytest.raises(UnloggedReadError, match="'ask' reads any key of 'prices'") as caught:
        check_hosts(program(logged=False))
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


def test_several_hosts_read_a_store_that_has_a_changelog() -> None:
    """A host reads on in it."""
    check_hosts(program(logged=True))
