"""Where processors differ from those of Kafka Streams; each test has the id of its difference."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Consumed,
    DataError,
    Record,
    StreamsBuilder,
    Suppressed,
    Topology,
    TopologyTestDriver,
)
from mustela.planner.planner import plan
from mustela.processors import ContextualProcessor
from mustela.windows import BufferConfig
from tests.unit.testing.processors import store


class Counting(ContextualProcessor[str, str, str, int]):
    """Counts in a field, which does not outlive the epoch, and in a store, which does."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.count = 0

    def process(self, record: Record[str, str]) -> None:
        self.count += 1
        total = self.context.state_store("s").merge("all", 1, int.__add__)
        self.context.forward(record.with_value(10 * total + self.count))


def test_processors_live_for_an_epoch() -> None:
    """`processors-live-for-an-epoch`."""
    builder = StreamsBuilder().add_state_store(store("s"))
    builder.stream("in", key=str, value=str).process(Counting, stores=["s"]).to(
        "out", key=str, value=int
    )
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        with driver.epoch():
            topic.pipe_value_list(["a", "b"])
        topic.pipe_input("k", "c")
        assert driver.create_output_topic("out").read_values_to_list() == [11, 22, 31]


class First(ContextualProcessor[str, str, str, str]):
    """Thinks that it can catch what happens behind it."""

    def process(self, record: Record[str, str]) -> None:
        try:
            self.context.forward(record)
        except ValueError:
            self.context.forward(record.with_value("caught"))


class Second(ContextualProcessor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        raise ValueError(record.value)


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_forwarded_fails_where_it_goes(shared: bool) -> None:
    """`forwards-fail-by-themselves`."""
    builder = StreamsBuilder().add_state_store(store("s"))
    used = ["s"] if shared else []
    first = builder.stream("in", key=str, value=str).process(First, stores=used, name="first")
    first.process(Second, stores=used, name="second")
    first.to("out", key=str, value=str)
    with TopologyTestDriver(builder, settings={"processing_handler": "continue"}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        assert driver.create_output_topic("out").read_values_to_list() == ["v"]
        assert driver.metrics["failed_records:second"] == 1
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError, match="second"):
        driver.create_input_topic("in").pipe_input("k", "v")


def test_records_travel_to_the_store_of_their_key() -> None:
    """`records-travel-to-their-store`: also where no repartition was written."""
    builder = StreamsBuilder().add_state_store(store("s"))

    class Sum(ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            total = self.context.state_store("s").merge(record.key, record.value, int.__add__)
            self.context.forward(record.with_value(total))

    numbers = builder.stream("in", key=str, value=int)
    numbers.select_key(lambda _key, value: str(value % 2)).process(Sum, stores=["s"]).to(
        "out", key=str, value=int
    )
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_key_value_list([(f"k{number}", number) for number in range(8)])
        found = driver.create_output_topic("out").read_key_values_to_map()
    assert found == {"0": 12, "1": 16}


def test_settings_of_clients_are_not_shown() -> None:
    """`configs-hold-no-secrets`."""
    seen: list[Any] = []

    class Look(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            configs = self.context.app_configs()
            seen.append(("kafka" in configs, "spark" in configs, configs["emit"]))
            seen.append(self.context.app_configs_with_prefix("kafka."))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Look)
    secret = {"kafka": {"sasl.password": "secret"}, "emit": "every"}
    with TopologyTestDriver(builder, settings=secret) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
    assert seen == [(False, False, "every"), {}]


class Keep(ContextualProcessor[str, str, Any, Any]):
    def process(self, record: Record[str, str]) -> None:
        self.context.state_store("kept").put(record.key, 1)


def test_a_read_only_store_has_a_changelog() -> None:
    """`read-only-stores-have-a-changelog`."""
    consumed = Consumed(key=str, value=str)
    topology = Topology().add_read_only_state_store(
        store("kept"), "facts", "facts", "keep", Keep, consumed=consumed
    )
    stores = {spec.name: spec for stage in plan(topology).stages for spec in stage.stores}
    assert stores["kept"].logged
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("facts").pipe_input("sky", "blue")
        driver.crash(lose_state=True)
        assert dict(driver.get_key_value_store("kept").all()) == {"sky": 1}


@pytest.mark.parametrize(("waits", "known"), [(False, True), (True, False)])
def test_what_waited_has_no_place(waits: bool, known: bool) -> None:
    """`what-waited-has-no-place`."""
    seen: list[bool] = []

    class Places(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            seen.append(self.context.record_metadata() is not None)

    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=str, store="rows")
    if waits:
        table = table.suppress(Suppressed.until_time_limit(timedelta(0), BufferConfig.unbounded()))
    table.to_stream().process(Places)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("k", "x")
    assert seen == [known]
