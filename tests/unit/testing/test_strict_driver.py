"""The test driver refuses, and shows, what production would."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from mustela import App, Materialized, Stores, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.config.errors import UnknownSettingError
from mustela.errors import UsageError
from mustela.processors import ContextualProcessor
from mustela.runtime.app import UnnamedStepError
from mustela.testing.faults import EmptyTopicError, GroupsDifferError, TestDriverError

TEXTS: dict[str, Any] = {"key": str, "value": str}


def counting(app: App, **options: Any) -> App:
    @app.topology
    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream("lines", **TEXTS).group_by_key()
        grouped.count(**options).to_stream().to("counts")

    return app


# -- an application ----------------------------------------------------------------------------


def test_an_app_is_tested_with_its_own_settings() -> None:
    """Event time and key groups among them; what the test says stands over them."""
    app = counting(App("shop", emit="every", key_groups=8), store="counts")
    with TopologyTestDriver(app) as driver:
        driver.create_input_topic("lines").pipe_input("a", "x", timestamp=5)
        assert driver.watermark == 5
        assert driver.create_output_topic("shop-dead-letters").is_empty
    with TopologyTestDriver(app, {"event_time": "stream-time"}) as driver:
        with pytest.raises(TestDriverError, match="event_time"):
            driver.advance_watermark(9)
        piped = driver.create_input_topic("lines")
        with driver.epoch():
            piped.pipe_input("b", "x", timestamp=6)
            piped.pipe_input("b", "x", timestamp=7)
        counts = driver.create_output_topic("counts").read_key_values_to_list()
        assert counts == [("b", 1), ("b", 2)]  # emit = every, as the App says


def test_a_setting_of_the_test_is_checked() -> None:
    """As one of the application's is."""
    with pytest.raises(UnknownSettingError, match="emitt"):
        TopologyTestDriver(counting(App("shop"), store="counts"), {"emitt": "every"})


def test_a_stateful_step_without_a_name_is_refused() -> None:
    """As the start of the application refuses it; a bare builder is only being tried."""
    with pytest.raises(UnnamedStepError):
        TopologyTestDriver(counting(App("shop")))
    with TopologyTestDriver(counting(App("shop", {"naming.strict": False}))):
        pass


def test_a_function_that_cannot_reach_the_workers_is_refused() -> None:
    """Named with the step and the user's line, though nothing is sent here."""
    app, lock = App("shop"), threading.Lock()

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        def locked(value: str) -> str:
            with lock:
                return value

        builder.stream("lines", **TEXTS).map_values(locked, name="locked").to("out")

    with pytest.raises(UsageError, match="step locked cannot be sent") as caught:
        TopologyTestDriver(app)
    assert caught.value.code == "FUNCTION_NOT_PICKLABLE"
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


# -- topics ------------------------------------------------------------------------------------


def copies() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("lines", **TEXTS).to("copies")
    return builder


def test_an_output_topic_that_nobody_writes_is_named() -> None:
    """A test that reads it would pass with whatever the topology does."""
    driver = TopologyTestDriver(copies())
    with pytest.raises(TestDriverError, match="does not write topic 'copeis'") as caught:
        driver.create_output_topic("copeis")
    assert caught.value.fix == "did you mean 'copies'?"


def test_dead_letters_that_nobody_writes_are_named_where_they_are_read() -> None:
    """That there are none can be asked all the same."""
    with TopologyTestDriver(copies()) as driver:
        letters = driver.create_output_topic("test-dead-letters")
        assert letters.is_empty
        with pytest.raises(EmptyTopicError) as caught:
            letters.read_value()
        assert "processing_handler is fail" in str(caught.value.why)
    settings = {"processing_handler": "dead_letter"}
    with TopologyTestDriver(copies(), settings) as driver:
        letters = driver.create_output_topic("test-dead-letters")
        with pytest.raises(EmptyTopicError) as caught:
            letters.read_value()
        assert caught.value.why is None


def test_topics_that_a_function_names_have_the_types_of_their_sink() -> None:
    """Each row has those of the sink that wrote it; a test may still say its own."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=int)
    lines.to(lambda _key, value, _context: "odd" if value % 2 else "even")
    lines.map_values(str, value=str).to(lambda _key, _value, _context: "texts")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("lines").pipe_key_value_list([("a", 1), ("b", 2)])
        assert driver.create_output_topic("odd").read_key_values_to_list() == [("a", 1)]
        assert driver.create_output_topic("texts").read_values_to_list() == ["1", "2"]
        raw = driver.create_output_topic("even", value=bytes)
        assert raw.read_value() == (2).to_bytes(8, "big")


# -- key groups --------------------------------------------------------------------------------


class CountsAll(ContextualProcessor[str, str, str, int]):
    """Counts under a key that its records do not have."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.state_store("tally")

    def process(self, record: Any) -> None:
        count = (self.counts.get("all") or 0) + 1
        self.counts.put("all", count)
        self.context.forward(record.with_value(count))


class CountsOwn(CountsAll):
    """Counts under the key of the record."""

    def process(self, record: Any) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.with_value(count))


def tallying(processor: type[CountsAll]) -> StreamsBuilder:
    builder = StreamsBuilder()
    store = Stores.persistent_key_value_store("tally")
    builder.add_state_store(Stores.key_value_store_builder(store, key=str, value=int))
    lines = builder.stream("lines", **TEXTS).map_values(str.upper, name="upper")
    lines.process(processor, stores=["tally"], name="tallied").to("out", key=str, value=int)
    return builder


WORDS = [("a", "x"), ("b", "y"), ("c", "z"), ("a", "x")]


def test_a_step_that_leans_on_one_key_group_is_named() -> None:
    """A counter under a constant key passes with one group, and differs in production."""
    driver = TopologyTestDriver(tallying(CountsAll), groups="both")
    piped = driver.create_input_topic("lines", start=0)
    with pytest.raises(GroupsDifferError, match="step 'tallied' gives different results") as caught:
        piped.pipe_key_value_list(WORDS)
    error = caught.value
    assert error.fields["step"] == "tallied"
    assert error.evidence == {"only with 1": "'b': 2 at 0", "only with 32": "'b': 1 at 0"}
    assert error.at is not None
    assert error.at.file == __file__


def test_a_step_that_keeps_to_its_keys_passes_both_ways() -> None:
    """Record by record, in epochs, after a crash, and where time passes."""
    with TopologyTestDriver(tallying(CountsOwn), groups="both", initial_wall_clock=0) as driver:
        piped = driver.create_input_topic("lines")
        piped.pipe_key_value_list(WORDS)
        with driver.epoch():
            piped.pipe_key_value_list(WORDS)
        driver.crash(lose_state=True)
        driver.advance_wall_clock_time(timedelta(minutes=1))
        piped.pipe_key_value_list(WORDS)
        found = driver.create_output_topic("out").read_key_values_to_map()
        assert found == {"a": 6, "b": 3, "c": 3}


def test_stream_time_of_a_task_is_named_too() -> None:
    """Another key's record closes no window in production."""
    builder = StreamsBuilder()
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    grouped = builder.stream("lines", **TEXTS).group_by_key()
    grouped.windowed_by(minutes).count(store="minutes").to_stream().to("out")
    driver = TopologyTestDriver(builder, groups="both")
    piped = driver.create_input_topic("lines")
    piped.pipe_input("a", "x", timestamp=120_000)
    with pytest.raises(GroupsDifferError, match=r"windowed_by\.count'") as caught:
        piped.pipe_input("b", "x", timestamp=0)
    assert caught.value.evidence["only with 1"] == "nothing"


@pytest.mark.parametrize("options", [{"groups": "two"}, {"groups": "both", "hold_calls": True}])
def test_what_cannot_be_run_twice_is_refused(options: dict[str, Any]) -> None:
    """With the way to write it."""
    with pytest.raises(TestDriverError) as caught:
        TopologyTestDriver(copies(), **options)
    assert caught.value.fix


def test_a_key_in_several_groups_is_shown_once() -> None:
    """What counts is the row of the key's own group, which `get` gives too."""
    with TopologyTestDriver(tallying(CountsAll), key_groups=32) as driver:
        piped = driver.create_input_topic("lines")
        piped.pipe_key_value_list([(f"key-{n}", "x") for n in range(100)])
        tally = driver.get_key_value_store("tally")
        rows = list(tally.all())
        assert [key for key, _ in rows] == ["all"]
        assert tally.get("all") == rows[0][1]
        assert len(tally) == 1
        assert list(tally.range("a", "b")) == rows
        assert list(tally.reverse_all()) == rows


class Remembers(ContextualProcessor[str, str, str, str]):
    """Keeps its records under their values."""

    def process(self, record: Any) -> None:
        self.context.state_store("tally").put(record.value, 1)


def test_a_row_is_found_in_whatever_group_it_is() -> None:
    """A test looks for what was put, and need not know by which record."""
    builder = StreamsBuilder()
    store = Stores.persistent_key_value_store("tally")
    builder.add_state_store(Stores.key_value_store_builder(store, key=str, value=int))
    builder.stream("lines", **TEXTS).process(Remembers, stores=["tally"], name="kept")
    with TopologyTestDriver(builder, key_groups=32) as driver:
        values = [f"value-{n}" for n in range(20)]
        driver.create_input_topic("lines").pipe_key_value_list([(v[::-1], v) for v in values])
        tally = driver.get_key_value_store("tally")
        assert [tally.get(value) for value in values] == [1] * 20
        tally.put("value-7", 5)
        assert tally.get("value-7") == 5
        assert sorted(key for key, _ in tally.all()) == sorted(values)


def test_other_processors_see_a_key_once_too() -> None:
    """A store that is read whole, as of the epoch before."""

    class Lists(ContextualProcessor[str, str, str, int]):
        def process(self, record: Any) -> None:
            rows = list(self.context.any_key_store("tally").all())
            self.context.forward(record.with_value(len(rows)))

    builder = tallying(CountsAll)
    asked = builder.stream("asked", **TEXTS)
    asked.process(Lists, reads=["tally"], name="listed").to("rows", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=32) as driver:
        driver.create_input_topic("lines").pipe_key_value_list(WORDS)
        driver.create_input_topic("asked").pipe_input("q", "?")
        assert driver.create_output_topic("rows").read_value() == 1


def test_a_window_in_several_groups_is_shown_once() -> None:
    """As a key is."""

    class Puts(ContextualProcessor[str, str, str, str]):
        def process(self, record: Any) -> None:
            self.context.state_store("windows").put("all", 1, 0)

    builder = StreamsBuilder()
    minute = timedelta(minutes=1)
    supplier = Stores.persistent_window_store("windows", retention=minute, window_size=minute)
    builder.add_state_store(Stores.window_store_builder(supplier, key=str, value=int))
    builder.stream("lines", **TEXTS).process(Puts, stores=["windows"], name="put")
    with TopologyTestDriver(builder, key_groups=32) as driver:
        driver.create_input_topic("lines").pipe_key_value_list(WORDS)
        assert len(list(driver.get_window_store("windows").all())) == 1


def test_materialized_is_told_of_a_store_by_keyword() -> None:
    """The store's name makes a step a named one."""
    app = counting(App("shop"), materialized=Materialized(store="counts"))
    with TopologyTestDriver(app) as driver:
        driver.create_input_topic("lines").pipe_input("a", "x")
        assert driver.get_key_value_store("counts")["a"] == 1
