"""Processors in a running application: shared stores, outputs, global stores, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import Consumed, Record, Stores, StreamsBuilder, Topology
from mustela.errors import MustelaError
from mustela.processors import ContextualProcessor, SideOutput
from mustela.stores import StoreBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

BASE = 1_700_000_000_000


def store(name: str, value: Any = str) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=value)


class First(ContextualProcessor[str, str, str, str]):
    """Writes its mark into the trace of the key, forwards, and writes another one."""

    def process(self, record: Record[str, str]) -> None:
        traces = self.context.state_store("traces")
        traces.put(record.key, (traces.get(record.key) or "") + "a")
        self.context.forward(record)
        traces.put(record.key, traces.get(record.key) + "z")


class Second(ContextualProcessor[str, str, str, str]):
    """Forwards the trace as it finds it, with what the global store says of the value."""

    def process(self, record: Record[str, str]) -> None:
        traces = self.context.state_store("traces")
        fact = self.context.state_store("facts").get(record.value)
        self.context.forward(record.with_value(f"{traces.get(record.key)}:{fact}"))
        if fact is None:
            self.context.output("unknown", record)


class Facts(ContextualProcessor[str, str, Any, Any]):
    """Keeps what a topic says, in capitals."""

    def process(self, record: Record[str, str]) -> None:
        self.context.state_store("facts").put(record.key, record.value.upper())


def topology(prefix: str) -> Any:
    def build(builder: StreamsBuilder) -> Topology:
        builder.add_global_store(
            store("facts"), f"{prefix}.facts", Facts, consumed=Consumed(key=str, value=str)
        )
        builder.add_state_store(store("traces"))
        words = builder.stream(f"{prefix}.in", key=str, value=str)
        first = words.process(First, stores=["traces"], name="first")
        second = first.filter(lambda _key, value: value != "no", name="some").process(
            Second,
            stores=["traces"],
            name="second",
            outputs={"unknown": SideOutput(key=str, value=str)},
        )
        second.output("unknown").to(f"{prefix}.unknown")
        return builder.build().add_sink("out", f"{prefix}.out", "second", key=str, value=str)

    return build


def test_processors_share_stores_and_read_global_ones_over_a_restart(world: World) -> None:
    """Record by record, in each key's order; state is there again behind a restart."""
    names = {short: world.topic(short) for short in ("in", "facts", "out", "unknown")}
    build = topology(names["in"].removesuffix(".in"))
    keys = [f"k{number}" for number in range(10)]
    world.send(names["facts"], [("sky", "blue", BASE), ("sky", "grey", BASE + 1)])
    expected: dict[str, list[str]] = {key: [] for key in keys}
    sent = 0
    for run in range(2):
        app, _ = world.app(build)
        with app:
            rows: list[tuple[str, str, int]] = []
            for number, value in enumerate(["sky", "no", "sea", "sky"]):
                for key in keys:
                    rows.append((key, value, BASE + 10 + sent))
                    sent += 1
                    trace = "az" * (4 * run + number) + "a"
                    if value != "no":
                        fact = "GREY" if value == "sky" else None
                        expected[key].append(f"{trace}:{fact}")
            world.send(names["in"], rows)
            total = sum(map(len, expected.values()))
            world.until(lambda t=total: len(world.rows(names["out"])) >= t, "all is through", app)
    found: dict[str, list[str]] = {key: [] for key in keys}
    for row in world.rows(names["out"]):
        found[(row.key or b"").decode()].append((row.value or b"").decode())
    assert found == expected
    unknown = [row.value for row in world.rows(names["unknown"])]
    assert unknown == [b"sea"] * 2 * len(keys)


def test_a_failure_of_a_processor_names_the_users_line(world: World) -> None:
    """Also from a worker, and where the processor stands in a group."""
    source = world.topic("in")

    class Broken(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.state_store("traces").put(record.key, "x")
            raise ValueError(record.value)

    def build(builder: StreamsBuilder) -> None:
        builder.add_state_store(store("traces"))
        words = builder.stream(source, key=str, value=str)
        first = words.process(First, stores=["traces"], name="first")
        first.process(Broken, stores=["traces"], name="broken")

    world.send(source, [("k", "v", BASE)])
    app, _ = world.app(build)
    with pytest.raises(MustelaError, match="step 'broken' failed") as caught, app:
        world.until(lambda: False, "it fails", app)
    assert "raise ValueError(record.value)" in str(caught.value)
