"""Contexts that note what a processor does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import Record, Stores
from mustela.api.errors import BadNameError, StoreAccessError, UnknownChildError
from mustela.api.timers import TimerError, TimerKeyError
from mustela.processors import (
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    PunctuationType,
    RecordMetadata,
    TimeDomain,
)
from mustela.testing import MockFixedKeyProcessorContext, MockProcessorContext


class Everything(ContextualProcessor[str, Any, Any, Any]):
    """Uses all that a context has."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.minutely = context.schedule(
            timedelta(minutes=1), PunctuationType.WALL_CLOCK_TIME, self.tick
        )

    def tick(self, time: int) -> None:
        self.context.forward(Record("tick", time, time))

    def process(self, record: Record[str, Any]) -> None:
        context = self.context
        context.state_store("last").put(record.key, record.value)
        context.forward(record)
        context.forward(record.with_value("left"), "left")
        context.output("side", record.with_value("side"))
        context.register_event_time_timer(record.timestamp + 10)
        context.register_processing_time_timer(50, key="other", name="n")
        context.update("far", "b", max, 7, reply_to="told")
        context.transact(["x", "y"], print, 1)
        context.metrics().counter("seen").increment()
        context.commit()

    def on_timer(self, timer: Any, context: Any) -> None:
        context.forward(timer.with_value("timer"))


def last() -> Any:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("last"), key=str)


def test_what_a_processor_does_is_noted() -> None:
    """Each kind by itself, in order; what is changed later does not show."""
    context: MockProcessorContext[Any, Any] = MockProcessorContext()
    store = context.add_state_store(last())
    processor = Everything()
    processor.init(context)
    value = ["x"]
    record = Record("a", value, 5, (("h", b"1"),))
    context.set_record_in_hand(record)
    processor.process(record)
    value.append("later")
    assert store.get("a") == ["x"]
    told = [(one.record.value, one.child, one.output) for one in context.forwarded()]
    assert told == [(["x"], None, None), ("left", "left", None), ("side", None, "side")]
    assert [one.record.value for one in context.forwarded("left")] == [["x"], "left"]
    assert [one.record.value for one in context.forwarded("right")] == [["x"]]
    assert [one.value for one in context.outputs("side")] == ["side"]
    assert context.headers == (("h", b"1"),)
    change, transaction = context.requests
    assert (change.store, change.keys, change.args, change.reply_to) == ("far", "b", (7,), "told")
    assert (transaction.store, transaction.keys, transaction.reply_key) == (None, ["x", "y"], "a")
    assert context.counts == {"seen": 1}
    assert context.committed
    context.reset_commit()
    context.reset_forwards()
    assert not context.committed
    assert not context.forwarded()


def test_punctuators_and_timers_are_let_go_by_the_test() -> None:
    """A cancelled punctuator does nothing; a timer that is registered anew is moved."""
    context: MockProcessorContext[Any, Any] = MockProcessorContext()
    context.add_state_store(last())
    processor = Everything()
    processor.init(context)
    (punctuator,) = context.scheduled_punctuators
    assert punctuator.interval == timedelta(minutes=1)
    assert punctuator.type is PunctuationType.WALL_CLOCK_TIME
    again = context.schedule(punctuator.interval, punctuator.type, print, start=7)
    assert (again.start, punctuator.start, again.cancelled) == (7, None, False)
    punctuator.punctuate(60_000)
    processor.minutely.cancel()
    punctuator.punctuate(120_000)
    assert [one.record for one in context.forwarded()] == [Record("tick", 60_000, 60_000)]
    for time in (5, 7):
        record = Record("a", 1, time)
        context.set_record_in_hand(record)
        processor.process(record)
    assert [(t.key, t.timestamp, t.name) for t in context.timers] == [
        ("a", 17, ""),
        ("other", 50, "n"),
    ]
    context.reset_forwards()
    processor.on_timer(context.timers[0], context)
    assert context.forwarded()[0].record == Record("a", "timer", 17)
    context.delete_timer()
    context.delete_timer("other", "n", TimeDomain.EVENT_TIME)
    assert [t.key for t in context.timers] == ["other"]


def test_times_and_places_are_what_the_test_says() -> None:
    context: MockProcessorContext[Any, Any] = MockProcessorContext(
        application_id="app",
        step_name="step",
        task_id=3,
        app_configs={"emit": "every", "epoch": {"max_records": 5}},
        key=str,
    )
    assert context.current_stream_time() == context.current_system_time() == -1
    assert context.record_metadata() is None
    context.set_current_stream_time(9)
    context.set_current_system_time(10)
    context.set_record_metadata("t", 1, 2)
    assert (context.current_watermark(), context.current_processing_time()) == (9, 10)
    assert context.record_metadata() == RecordMetadata(topic="t", partition=1, offset=2)
    assert (context.application_id, context.step_name, context.task_id) == ("app", "step", 3)
    assert context.app_configs()["emit"] == "every"
    assert context.app_configs_with_prefix("epoch.") == {"max_records": 5}
    assert context.key_serde.serialize("a") == b"a"
    assert context.value_serde.deserialize(context.value_serde.serialize((1, "x"))) == (1, "x")


def test_a_mock_says_what_is_wrong_as_a_context_does() -> None:
    context: MockProcessorContext[Any, Any] = MockProcessorContext(
        children=["left"], side_outputs=[]
    )
    no_record: Any = ("a", 1)
    with pytest.raises(StoreAccessError, match="no store 'last'"):
        context.state_store("last")
    with pytest.raises(UnknownChildError):
        context.forward(Record("a", 1, 0), "right")
    with pytest.raises(UnknownChildError):
        context.output("side", Record("a", 1, 0))
    with pytest.raises(TypeError):
        context.forward(no_record)
    with pytest.raises(TimerKeyError):
        context.register_event_time_timer(5)
    with pytest.raises(TimerError):
        context.schedule(timedelta(0), PunctuationType.STREAM_TIME, print)
    with pytest.raises(BadNameError):
        context.metrics().counter("two words")
    with pytest.raises(ValueError, match="goes up"):
        context.metrics().counter("seen").increment(-1)


def test_a_mock_takes_what_a_context_takes() -> None:
    """Both check alike: what a processor may not do at work it may not do here."""
    context: MockProcessorContext[Any, Any] = MockProcessorContext(
        children=["left"], side_outputs=["side"]
    )
    nothing: Any = None
    with pytest.raises(TimerError, match="cannot be called"):
        context.schedule(timedelta(1), PunctuationType.STREAM_TIME, nothing)
    with pytest.raises(TypeError, match="function of the old value"):
        context.update("far", "b", nothing)
    with pytest.raises(TypeError, match="function of the transaction"):
        context.transact(["b"], nothing)
    with pytest.raises(StoreAccessError, match="no store 'last'"):
        context.any_key_store("last")
    context.forward(Record("a", 1, 0), "side")
    assert [one.child for one in context.forwarded()] == ["side"]


class Length(ContextualFixedKeyProcessor[str, str, int]):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(len(record.value)))
        self.context.register_event_time_timer(8)

    def on_timer(self, timer: Any, context: Any) -> None:
        context.forward(timer.with_value(0))


def test_a_fixed_key_processor_has_a_mock_too() -> None:
    context: MockFixedKeyProcessorContext[Any, Any] = MockFixedKeyProcessorContext()
    processor = Length()
    processor.init(context)
    record = context.record("a", "sun", 4)
    context.set_record_in_hand(record)
    processor.process(record)
    processor.on_timer(context.timers[0], context)
    assert [(one.record.key, one.record.value) for one in context.forwarded()] == [
        ("a", 3),
        ("a", 0),
    ]
    other: Any = Record("a", 1, 0)
    with pytest.raises(TypeError):
        context.forward(other)


@pytest.mark.parametrize("kind", ["window", "session", "versioned", "lru"])
def test_stores_of_every_kind_can_be_added(kind: str) -> None:
    """As the processor sees them on an engine."""
    context: MockProcessorContext[Any, Any] = MockProcessorContext()
    minute = timedelta(minutes=1)
    if kind == "window":
        supplier = Stores.persistent_window_store("s", retention=minute, window_size=minute)
        store = context.add_state_store(Stores.window_store_builder(supplier, key=str))
        store.put("a", 1, 0)
        assert store.get("a", 0) == 1
    elif kind == "session":
        supplier = Stores.persistent_session_store("s", retention=minute)
        store = context.add_state_store(Stores.session_store_builder(supplier, key=str))
        assert list(store.fetch("a")) == []
    elif kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store("s", history_retention=minute)
        store = context.add_state_store(Stores.versioned_key_value_store_builder(supplier, key=str))
        store.put("a", 1, 5)
        assert store.get("a").value == 1
    else:
        store = context.add_state_store(
            Stores.key_value_store_builder(Stores.lru_map("s", max_entries=1))
        )
        store.put("a", 1)
        assert context.get_state_store("s").get("a") == 1
