"""Two versions of a program, one after the other: what becomes of the first one's state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mustela import Materialized, StreamsBuilder
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

Build = Callable[[StreamsBuilder], None]


def counting(source: str, sink: str, stored: Materialized[str, int]) -> Build:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str)
        counts = lines.group_by_key().count(materialized=stored)
        counts.to_stream(name="told").to(sink, key=str, value=int)

    return build


def test_a_renamed_store_keeps_its_rows_and_a_rollback_finds_them(world: World) -> None:
    """Three runs count on: under the old name, the new one, and the old one again."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    old = Materialized[str, int](store="pending")
    new = Materialized[str, int](store="orders", renamed_from="pending")
    for stored in (old, new, old):
        world.send(source, [(key, "x") for key in ("a", "b", "a")])
        world.run(counting(source, sink, stored))
    assert world.numbers(sink) == {"a": 6, "b": 3}
    own = [topic for topic in world.admin.topics() if topic.startswith(f"{world.name}-")]
    assert not [topic for topic in own if "orders-changelog" in topic]


def test_a_release_with_one_store_more_keeps_the_rows_of_the_others(world: World) -> None:
    """The stage has another set of stores then, and its state is made anew from changelogs."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    counted = counting(source, sink, Materialized[str, int](store="pending"))

    def and_reduced(builder: StreamsBuilder) -> None:
        counted(builder)
        lines = builder.stream(source, key=str, value=str)
        lines.group_by_key().reduce(lambda old, _: old, store="first")

    for build in (counted, and_reduced):
        world.send(source, [(key, "x") for key in ("a", "b", "a")])
        world.run(build)
    assert world.numbers(sink) == {"a": 4, "b": 2}


def test_a_store_that_was_dropped_begins_empty_and_its_neighbour_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Local state of the stage is of another changelog then, and is made anew."""
    command = ["state", "drop", "shop:app", "pending"]
    source, out, last = world.topic("in", partitions=2), world.topic("out"), world.topic("last")

    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream(source, key=str, value=str).group_by_key()
        for store, sink in (("pending", out), ("kept", last)):
            counts = grouped.count(store=store, name=store)
            counts.to_stream(name=f"told.{store}").to(sink, key=str, value=int)

    monkeypatch.setattr("mustela.cli.state.load_app", lambda _target: world.app(build)[0])
    world.send(source, [(key, "x") for key in ("a", "b", "a")])
    world.run(build)
    topics = world.admin.topics()
    assert main([*command, "--dry-run"]) == ExitCode.OK
    assert "restore kept from changelogs" in capsys.readouterr().out
    assert world.admin.topics() == topics
    assert main([*command, "--yes"]) == ExitCode.OK
    assert [topic[-17:] for topic in topics if topic not in world.admin.topics()] == [
        "pending-changelog"
    ]
    world.send(source, [(key, "x") for key in ("a", "b", "a")])
    world.run(build)
    assert world.numbers(out) == {"a": 2, "b": 1}
    assert world.numbers(last) == {"a": 4, "b": 2}


@dataclass
class Order:
    total: int


@dataclass
class OrderWithNote:
    total: int
    note: str = "none"


def summing(source: str, sink: str, value: Any, add: Callable[..., Any]) -> Build:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str).group_by_key()
        orders = lines.aggregate(lambda: value(0), add, store="orders", value=value)
        orders.to_stream(name="told").to(sink, key=str, value=value)

    return build


def test_a_value_that_gained_a_field_reads_the_rows_from_before(world: World) -> None:
    """The field has its default there, and is kept from then on."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "1"), ("a", "2")])
    world.run(summing(source, sink, Order, lambda _, text, sum: Order(sum.total + int(text))))
    world.send(source, [("a", "4")])
    world.run(
        summing(
            source,
            sink,
            OrderWithNote,
            lambda _, text, sum: OrderWithNote(sum.total + int(text), f"was {sum.note}"),
        )
    )
    assert world.values(sink)[-1] == '{"total":7,"note":"was none"}'
