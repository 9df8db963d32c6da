"""Which steps keep state under a name that nobody gave."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import JoinWindows, StreamsBuilder, Suppressed, TimeWindows
from mustela.planner.planner import plan
from mustela.runtime.app import App, UnnamedStepError
from mustela.topology.checks import unnamed_stateful_steps
from mustela.topology.graph import TopologyGraph
from mustela.windows import BufferConfig

MINUTE = timedelta(minutes=1)


def fold(_key: str, value: str, folded: str) -> str:
    return folded + value


def program(*, named: bool) -> TopologyGraph:
    """Every way to keep state, with and without names."""
    builder = StreamsBuilder()

    def say(name: str) -> dict[str, Any]:
        return {"name": name} if named else {}

    clicks = builder.stream("clicks", key=str, value=str)
    views = builder.stream("views", key=str, value=str)
    users = builder.table("users", key=str, value=str)
    lands = builder.table("lands", key=str, value=str)
    near = JoinWindows.of_time_difference(MINUTE, grace=MINUTE)
    clicks.join(views, str.__add__, windows=near, **say("near"))
    grouped = clicks.group_by_key()
    grouped.count(**say("counts"))
    minutes = grouped.windowed_by(TimeWindows(size=MINUTE, grace=MINUTE)).count(**say("minutes"))
    final = Suppressed.until_window_closes(BufferConfig.unbounded())
    minutes.suppress(final, **say("final"))
    grouped.cogroup(fold).aggregate(str, value=str, **say("together"))
    last = clicks.to_table(**say("last"))
    last.join(users, str.__add__, **say("rows"))
    users.group_by(lambda key, value: (value, key), key=str, value=str).count(**say("by-name"))
    users.join(lands, str.__add__, foreign_key=str.lower, **say("of-land"))
    return builder.build()


def test_every_step_that_keeps_state_must_be_named() -> None:
    """With a name of its own it is; a table of a topic has the topic's."""
    unnamed = {type(node).__name__ for node in unnamed_stateful_steps(program(named=False))}
    assert unnamed == {
        *("StreamJoinNode", "AggregateNode", "WindowAggregateNode", "SuppressNode", "CogroupNode"),
        *("StreamToTableNode", "TableAggregateNode", "ForeignKeyMatchNode"),
    }
    assert unnamed_stateful_steps(program(named=True)) == []


@pytest.mark.parametrize("named", [False, True])
def test_a_join_that_keeps_a_copy_of_its_table_must_be_named(named: bool) -> None:
    """That it keeps one only the plan knows: the stream is in another stage than the table."""
    app = App("orders", state_dir="nowhere")

    @app.topology
    def build(builder: StreamsBuilder) -> None:  # pyright: ignore[reportUnusedFunction]
        users = builder.table("users", key=str, value=str)
        counts = builder.stream("clicks", key=str, value=str).group_by_key().count(name="counts")
        clicks = builder.stream("names", key=str, value=str)
        clicks.join(users, str.__add__, name="greeted").to("greetings", key=str, value=str)
        moved = counts.to_stream().map(lambda key, count: (key, str(count))).repartition(key=str)
        moved.join(users, str.__add__, name="joined" if named else None).to(
            "out", key=str, value=str
        )

    steps = [step.node for stage in plan(app.built_topology()).stages for step in stage.steps]
    found = [node.name for node in unnamed_stateful_steps([*app.built_topology(), *steps])]
    assert len(found) == (not named)
    if not named:
        with pytest.raises(UnnamedStepError) as caught:
            app.start()
        assert caught.value.at is not None
        assert "moved.join" in caught.value.at.code
