"""What is wrong with a suppression is found when the topology is built."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import KTable, Stores, StreamsBuilder, Suppressed, TimeWindows
from mustela.api.errors import (
    BadOptionError,
    NotWindowedError,
    OptionConflictError,
    SuppressVersionedError,
)
from mustela.api.options import Materialized
from mustela.topology.suppress import SuppressNode
from mustela.windows import BufferConfig

UNBOUNDED = BufferConfig.unbounded()
CLOSES = Suppressed.until_window_closes(UNBOUNDED)
MINUTE = timedelta(minutes=1)


def windowed(builder: StreamsBuilder, grace: timedelta = MINUTE) -> KTable[Any, int]:
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    return grouped.windowed_by(TimeWindows(size=MINUTE, grace=grace)).count(store="counts")


def node(builder: StreamsBuilder, name: str) -> SuppressNode:
    found = next(node for node in builder.build() if node.name == name)
    assert isinstance(found, SuppressNode)
    return found


def test_windows_cannot_close_where_there_are_none() -> None:
    """The error has the user's line and says how to go on."""
    table = StreamsBuilder().table("prices", key=str, value=int)
    with pytest.raises(NotWindowedError, match="'prices'") as caught:
        table.suppress(CLOSES)
    assert caught.value.at is not None
    assert "windowed_by" in str(caught.value)


def test_the_windows_are_found_behind_filters_and_mappings() -> None:
    """Their size and grace say how long rows wait."""
    builder = StreamsBuilder()
    table = windowed(builder).filter(lambda _key, count: count > 1).map_values(str, value=str)
    table.suppress(CLOSES, name="last")
    found = node(builder, "last")
    assert (found.wait_ms, found.span_ms) == (60_000, 120_000)


def test_a_versioned_table_cannot_be_suppressed() -> None:
    """Nor one that is only a view of it."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("versions", timedelta(hours=1))
    table = builder.table("in", key=str, value=int, materialized=Materialized(supplier=supplier))
    view = table.filter(lambda _key, value: value > 1)
    for each in (table, view):
        with pytest.raises(SuppressVersionedError):
            each.suppress(Suppressed.until_time_limit(MINUTE, UNBOUNDED))
    kept = view.map_values(str, value=str, store="plain")
    kept.suppress(Suppressed.until_time_limit(MINUTE, UNBOUNDED), name="rare")
    assert node(builder, "rare").wait_ms == 60_000


@pytest.mark.parametrize("buffer", [BufferConfig.max_records(5), BufferConfig.max_bytes(5)])
def test_a_last_value_cannot_go_early(buffer: BufferConfig) -> None:
    """A strict buffer shuts down when it is full."""
    with pytest.raises(BadOptionError, match="emits early"):
        Suppressed.until_window_closes(buffer)
    assert Suppressed.until_window_closes(buffer.shut_down_when_full()).buffer.records in {5, None}


@pytest.mark.parametrize("wrong", [5, "5s", timedelta(seconds=-1), timedelta(microseconds=1)])
def test_a_time_limit_is_a_timedelta(wrong: Any) -> None:
    """A bare number does not say its unit."""
    with pytest.raises(BadOptionError):
        Suppressed.until_time_limit(wrong, UNBOUNDED)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, None])
def test_a_bound_is_a_number(wrong: Any) -> None:
    """And not negative."""
    for make in (BufferConfig.max_records, BufferConfig.max_bytes, UNBOUNDED.with_max_records):
        with pytest.raises(BadOptionError):
            make(wrong)


def test_how_much_may_wait_must_be_said() -> None:
    """There is no default."""
    with pytest.raises(BadOptionError, match="not a BufferConfig"):
        Suppressed.until_time_limit(MINUTE, None)  # type: ignore[arg-type]
    with pytest.raises(BadOptionError, match="what changes wait for"):
        StreamsBuilder().table("in", key=str).suppress(None)  # type: ignore[arg-type]


def test_a_name_names_step_and_changelog() -> None:
    """Said once, in either place; said twice, it must agree."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int)
    limit = Suppressed.until_time_limit(MINUTE, UNBOUNDED, name="rare")
    result = table.suppress(limit)
    assert node(builder, "rare").buffer.name == "rare"
    assert result.queryable_store_name is None
    with pytest.raises(OptionConflictError):
        table.suppress(limit, name="other")


def test_the_changelog_of_the_buffer_can_be_configured_and_left_out() -> None:
    """As Kafka Streams' ``withLoggingEnabled`` and ``withLoggingDisabled``."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int)
    logged = UNBOUNDED.with_logging_enabled({"segment.ms": "600000"})
    table.suppress(Suppressed.until_time_limit(MINUTE, logged), name="logged")
    table.suppress(
        Suppressed.until_time_limit(MINUTE, logged.with_logging_disabled()), name="unlogged"
    )
    assert node(builder, "logged").buffer.topic_config == {"segment.ms": "600000"}
    assert not node(builder, "unlogged").buffer.logged
