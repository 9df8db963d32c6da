"""What is said where a stream or a table is asked for a step that it does not have."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import pytest

from mustela import SessionWindows, StreamsBuilder, TimeWindows
from mustela.api.errors import BadOptionError, NoSuchStepError


def handles() -> dict[str, Any]:
    builder = StreamsBuilder()
    records = builder.stream("records", key=str, value=str)
    rows = builder.table("rows", key=str, value=str)
    grouped = records.group_by_key()
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    sessions = SessionWindows(inactivity_gap=timedelta(minutes=1), grace=timedelta(0))
    cogrouped = grouped.cogroup(lambda _key, value, _total: value)
    return {
        "stream": records,
        "table": rows,
        "global": builder.global_table("towns", key=str, value=str),
        "builder": builder,
        "grouped": grouped,
        "grouped table": rows.group_by(lambda key, value: (value, key), name="by-value"),
        "minutes": grouped.windowed_by(minutes),
        "sessions": grouped.windowed_by(sessions),
        "cogrouped": cogrouped,
        "cogrouped minutes": cogrouped.windowed_by(minutes),
        "cogrouped sessions": cogrouped.windowed_by(sessions),
        "split": records.split(name="split"),
    }


@pytest.mark.parametrize(
    ("kind", "step", "fix"),
    [
        ("table", "to", "table.to_stream().to(...)"),
        ("table", "flatMap", "table.to_stream().flat_map(...)"),
        ("table", "reduce", "table.group_by(...).reduce(...)"),
        ("table", "windowedBy", "table.to_stream().group_by_key().windowed_by(...)"),
        ("stream", "suppress", "stream.to_table(...).suppress(...), or aggregate it first"),
        ("stream", "leftJoin", "write left_join"),
        ("stream", "map_value", "did you mean map_values?"),
        ("stream", "count", "stream.group_by_key().count(...)"),
        ("stream", "windowed_by", "stream.group_by_key().windowed_by(...)"),
        ("stream", "branch", "stream.split().branch(...)"),
        ("stream", "through", "stream.repartition(), or"),
        ("stream", "flatTransformValues", "stream.process_values(...)"),
        ("global", "group_by_key", "read the topic with table() or stream() instead, or join"),
        ("builder", "globalTable", "write global_table"),
        ("builder", "streem", "did you mean stream?"),
        ("builder", "filter", "builder.stream(...).filter(...)"),
        ("grouped", "windowedBy", "write windowed_by"),
        ("grouped", "window_by", "did you mean windowed_by?"),
        ("grouped", "emit_strategy", ".windowed_by(...).emit_strategy(...)"),
        ("grouped", "to_stream", "fold it first, and continue with the table"),
        ("grouped table", "windowed_by", "table.to_stream().group_by(...).windowed_by(...)"),
        ("grouped table", "peek", "fold it first, and continue with the changes"),
        ("minutes", "suppress", "fold it first, and continue with the table: .count(...).suppress"),
        ("sessions", "to", "fold it first, and continue with the changes"),
        ("cogrouped", "count", "write .aggregate(initializer, ...)"),
        ("cogrouped minutes", "emit_strategy", "hold the result back: .suppress(Suppressed"),
        ("cogrouped sessions", "to_stream", "fold it first, and continue with the table"),
        ("split", "defaultBranch", "write default_branch"),
        ("split", "map_values", "end the split, and use one of its streams"),
        ("table", "xyzzy", None),
    ],
)
def test_the_way_to_what_was_meant_is_told(kind: str, step: str, fix: str | None) -> None:
    """With the user's line, before anything runs."""
    with pytest.raises(NoSuchStepError) as caught:
        getattr(handles()[kind], step)
    told = caught.value.fix
    assert told == fix if fix is None else told is not None and told.startswith(fix)
    assert caught.value.at is not None
    assert pickle.loads(pickle.dumps(caught.value)).fields["asked"] == step


def test_handles_can_be_asked_and_copied_as_any_object() -> None:
    """The error is an AttributeError, and names with an underscore are nobody's step."""
    for handle in handles().values():
        assert not hasattr(handle, "nothing")
        assert getattr(handle, "nothing", None) is None
        assert type(copy.copy(handle)) is type(handle)
        with pytest.raises(AttributeError, match="has no attribute '_nothing'"):
            getattr(handle, "_nothing")  # noqa: B009 - a type checker would refuse the name


@pytest.mark.parametrize("kind", ["table", "global"])
def test_only_streams_are_merged(kind: str) -> None:
    """Rows are no records; what a table tells of them is."""
    made = handles()
    with pytest.raises(BadOptionError, match="cannot merge 'records'") as caught:
        made["stream"].merge(made[kind])
    assert caught.value.fix
