"""What is said where a stream or a table is asked for a step that it does not have."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.topology.errors import BadOptionError, NoSuchStepError


def handles() -> dict[str, Any]:
    builder = StreamsBuilder()
    return {
        "stream": builder.stream("records", key=str, value=str),
        "table": builder.table("rows", key=str, value=str),
        "global": builder.global_table("towns", key=str, value=str),
    }


@pytest.mark.parametrize(
    ("kind", "step", "fix"),
    [
        ("table", "to", "table.to_stream().to(...)"),
        ("table", "flatMap", "table.to_stream().flat_map(...)"),
        ("stream", "suppress", "stream.to_table(...).suppress(...), or aggregate it first"),
        ("stream", "leftJoin", "write left_join"),
        ("stream", "map_value", "did you mean map_values?"),
        ("global", "group_by_key", "read the topic with table() or stream() instead, or join"),
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
        assert copy.copy(handle).name == handle.name
        with pytest.raises(AttributeError, match="has no attribute '_nothing'"):
            getattr(handle, "_nothing")  # noqa: B009 - a type checker would refuse the name


@pytest.mark.parametrize("kind", ["table", "global"])
def test_only_streams_are_merged(kind: str) -> None:
    """Rows are no records; what a table tells of them is."""
    made = handles()
    with pytest.raises(BadOptionError, match="cannot merge 'records'") as caught:
        made["stream"].merge(made[kind])
    assert caught.value.fix
