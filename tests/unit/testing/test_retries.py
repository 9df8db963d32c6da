"""A function that fails and is called again: the result is as if it had never failed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    DataError,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.handlers import Retry
from mustela.processors import ContextualProcessor

Build = Callable[[StreamsBuilder, "Flaky", dict[str, Any]], Any]
RECORDS = [
    ("a", 1, 0),
    ("b", 2, 400),
    ("a", 3, 900),
    ("a", 4, 1_500),
    ("b", 5, 9_000),
    ("b", 6, 99_000),
]

_SECOND = timedelta(seconds=1)
_TUMBLING = TimeWindows(size=_SECOND, grace=timedelta(0))
_HOPPING = TimeWindows(size=_SECOND, advance=timedelta(milliseconds=500), grace=timedelta(0))
_SLIDING = SlidingWindows(time_difference=_SECOND, grace=timedelta(0))
_SESSIONS = SessionWindows(inactivity_gap=_SECOND, grace=timedelta(0))


class Flaky:
    """A function that changes what it gets, and then fails the first times of each call."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.left = failures

    def __call__(self, change: Callable[[], Any]) -> Any:
        made = change()
        if self.left:
            self.left -= 1
            msg = "not now"
            raise ConnectionError(msg)
        self.left = self.failures
        return made


def added(flaky: Flaky) -> Any:
    def add(_key: Any, value: Any, total: list[Any]) -> Any:
        return flaky(lambda: total.append(value) or total)

    return add


def merged(flaky: Flaky) -> Any:
    return lambda _key, one, other: flaky(lambda: one.extend(other) or one)


def grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=int).group_by_key()


def folded(windows: Any = None) -> Build:
    def build(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
        group = grouped(builder) if windows is None else grouped(builder).windowed_by(windows)
        return group.aggregate(list, added(flaky), **options).to_stream()

    return build


def in_sessions(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    sessions = grouped(builder).windowed_by(_SESSIONS)
    made = sessions.aggregate(list, added(flaky), merged(flaky), **options)
    return made.to_stream()


def longer(_key: Any, one: list[Any], other: list[Any]) -> list[Any]:
    return one + other


def with_merger(windows: Any = None) -> Build:
    def build(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
        group = grouped(builder) if windows is None else grouped(builder).windowed_by(windows)
        return group.aggregate(list, added(flaky), merger=longer, **options).to_stream()

    return build


def of_table(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    table = builder.table("in", key=str, value=int)
    group = table.group_by(lambda key, value: (key, value), key=str, value=int)

    def taken(_key: Any, value: Any, total: list[Any]) -> Any:
        total.remove(value)
        return total

    return group.aggregate(list, added(flaky), taken, **options).to_stream()


def together(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    return grouped(builder).cogroup(added(flaky)).aggregate(list, **options).to_stream()


def transacted(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    def move(key: Any, value: Any, tx: Any) -> Any:
        store = tx.store("sums")
        store.put(key, store.get(key, 0) + value)
        tx.forward(key, "moved")
        return flaky(lambda: store.get(key))

    sums = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("sums"), key=str, value=int
    )
    stream = builder.stream("in", key=str, value=int)
    return stream.transact(keys=lambda key, _value: [key], fn=move, stores=sums, **options)


def updated(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    sums = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("sums"), key=str, value=list
    )

    class Update(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            def change(old: Any) -> Any:
                mine = old or []
                return flaky(lambda: mine.append(record.value) or mine)

            self.context.update("sums", record.key, change)

    stream = builder.stream("in", key=str, value=int)
    stream.process(Update, updates=[sums], **options)
    return None


def timed(builder: StreamsBuilder, flaky: Flaky, options: dict[str, Any]) -> Any:
    sums = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("sums"), key=str, value=int
    )

    class Timed(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.register_event_time_timer(record.timestamp + 100, name=str(record.value))

        def on_timer(self, timer: Any, context: Any) -> None:
            store = context.get_state_store("sums")
            store.put(timer.key, (store.get(timer.key) or 0) + 1)
            if timer.timestamp < 60_000:
                context.register_event_time_timer(timer.timestamp + 60_000, name=str(flaky.left))
            context.forward(timer.with_value(store.get(timer.key)))
            flaky(lambda: None)

    stream = builder.stream("in", key=str, value=int)
    return stream.process(Timed, stores=[sums], **options)


VERBS: dict[str, Build] = {
    "aggregate": folded(),
    "aggregate in windows": folded(_TUMBLING),
    "aggregate in overlapping windows": folded(_HOPPING),
    "aggregate in sliding windows": folded(_SLIDING),
    "aggregate in sessions": in_sessions,
    "aggregate with a merger": with_merger(),
    "aggregate in windows, with a merger": with_merger(_TUMBLING),
    "aggregate of a grouped table": of_table,
    "cogroup": together,
    "transact": transacted,
    "updates of a store": updated,
    "timers": timed,
}


def run(build: Build, failures: int, handler: Any) -> tuple[Any, dict[str, int]]:
    """Return what a step gives and keeps when its function fails so often, and the counts."""
    builder = StreamsBuilder()
    made = build(builder, Flaky(failures), {"name": "step", "on_error": handler})
    if made is not None:
        said = made.map(lambda key, value: ("", f"{key}: {value}"), key=str, value=str)
        said.to("out")
    settings = {"naming.strict": False, "processing_handler": handler}  # of a store's updates
    with TopologyTestDriver(builder, settings=settings) as driver:
        topic = driver.create_input_topic("in")
        for key, value, timestamp in RECORDS:
            topic.pipe_input(key, value, timestamp=timestamp)
        out = made and driver.create_output_topic("out").read_values_to_list()
        stores: dict[str, Any] = {}
        if "sums" in driver.get_all_state_stores():
            stores = dict(driver.get_key_value_store("sums").all())
        return (out, stores), dict(driver.metrics)


@pytest.mark.parametrize("build", VERBS.values(), ids=VERBS.keys())
def test_a_function_that_is_called_again_finds_what_it_found_before(build: Build) -> None:
    """Not what the failed call has changed: neither state, nor what it forwarded, nor timers."""
    expected, _ = run(build, 0, "fail")
    found, counts = run(build, 2, Retry(attempts=5, initial=timedelta(0)))
    assert found == expected
    assert sum(n for name, n in counts.items() if name.startswith("record_retries:")) >= 10
    assert not any(name.startswith("failed_records") for name in counts)


@pytest.mark.parametrize("build", VERBS.values(), ids=VERBS.keys())
def test_attempts_are_bounded_and_told(build: Build) -> None:
    """Then ``then``, with the number of attempts in the error."""
    with pytest.raises(DataError, match="not now") as caught:
        run(build, 3, Retry(attempts=3, initial=timedelta(0)))
    assert caught.value.fields["attempts"] == 3
