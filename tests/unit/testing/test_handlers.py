"""Handlers of records that fail: words, functions and Kafka Streams' classes, wherever given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Consumed,
    DataError,
    Produced,
    Record,
    StreamsBuilder,
    TopologyTestDriver,
    UsageError,
)
from mustela.handlers import (
    CONTINUE,
    DEAD_LETTER,
    FAIL,
    RETRY,
    ErrorContext,
    LogAndContinueExceptionHandler,
    Retry,
)
from mustela.processors import ContextualProcessor
from tests.unit.testing.processors import store

LETTERS = "test-dead-letters"
RECORDS = ["1", "x", "3"]


def parsing(**options: Any) -> StreamsBuilder:
    """Return a topology in which one of `RECORDS` fails in the step ``parse``."""
    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    lines.map_values(int, value=int, name="parse", **options).to("out")
    return builder


def outcome(
    builder: StreamsBuilder, values: list[Any] | None = None, **settings: Any
) -> tuple[list[Any], list[Record[bytes, bytes]], dict[str, int]]:
    """Return what came out, the dead letters, and the counts."""
    with TopologyTestDriver(builder, settings=settings) as driver:
        topic = driver.create_input_topic("in", value=bytes if values else None)
        topic.pipe_value_list(values or RECORDS)
        out = driver.create_output_topic("out", value=int).read_values_to_list()
        letters: list[Any] = []
        if LETTERS in driver.produced_topic_names:
            letters = driver.create_output_topic(LETTERS).read_records_to_list()
        return out, letters, dict(driver.metrics)


class KafkaStyle:
    """As a user of Kafka Streams writes it."""

    def handle(self, context: ErrorContext, record: Record[Any, Any], exception: Exception) -> Any:
        assert (context.processor_node_id, record.value) == ("parse", "x")
        assert isinstance(exception, ValueError)
        return CONTINUE


class Renamed:
    """With the name of the newer method, and the arguments in the order of functions."""

    def handle_error(self, error: Exception, record: Any, context: Any) -> Any:
        assert isinstance(error, ValueError)
        assert context.topic == "in"
        return "continue"


@pytest.mark.parametrize(
    "handler",
    [
        "continue",
        "log_and_continue",
        CONTINUE,
        LogAndContinueExceptionHandler,
        LogAndContinueExceptionHandler(),
        KafkaStyle,
        KafkaStyle(),
        Renamed(),
        lambda _error, _record, _context: CONTINUE,
        lambda _error, _record, _context: "log_and_continue",
        lambda _error, _record, _context: [],
    ],
    ids=[
        *("continue", "log_and_continue", "CONTINUE", "kafkas class", "kafkas object"),
        *("class", "object", "handle_error", "function", "function of words", "no records"),
    ],
)
@pytest.mark.parametrize("where", ["step", "application"])
def test_a_record_is_left_out_however_that_is_said(handler: Any, where: str) -> None:
    """Words, Kafka Streams' classes by themselves or made, functions; for a step or for all."""
    own = {"on_error": handler} if where == "step" else {}
    settings = {} if own else {"processing_handler": handler}
    out, letters, counts = outcome(parsing(**own), **settings)
    assert (out, letters) == ([1, 3], [])
    assert counts["failed_records:parse"] == 1


def test_a_handler_is_told_all_there_is() -> None:
    """The error as it was raised, the record at the step, and the record as it was read."""
    seen: list[Any] = []

    def look(error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        seen.append((error, record, context))
        return DEAD_LETTER

    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).map_values(str.upper)
    words.map_values(int, value=int, name="parse", on_error=look).to("out")
    with TopologyTestDriver(builder, settings={"application_id": "shop"}) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("k", "7", 5)
        topic.pipe_input("k", "x", 9, headers=(("trace", b"1"),))
    ((error, record, context),) = seen
    assert isinstance(error, ValueError)
    assert (record.key, record.value, record.timestamp) == ("k", "X", 9)
    assert record.headers == (("trace", b"1"),)
    assert context == ErrorContext(
        kind="processing",
        step="parse",
        application_id="shop",
        topic="in",
        partition=0,
        offset=1,
        timestamp=9,
        headers=(("trace", b"1"),),
        source_raw_key=b"k",
        source_raw_value=b"x",
        attempt=1,
    )


def test_a_step_that_says_nothing_has_the_applications_handler() -> None:
    """And one that does has its own alone."""
    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    lines.map_values(int, value=int, name="own", on_error=DEAD_LETTER).to("out")
    lines.map_values(int, value=int, name="others").to("other")
    out, letters, counts = outcome(builder, processing_handler="continue")
    assert out == [1, 3]
    assert [dict(letter.headers)["mustela.error.step"] for letter in letters] == [b"own"]
    assert counts["failed_records:others"] == 1


def failing(times: int, error: type[Exception] = ValueError) -> Callable[[str], int]:
    """Return a function that fails so often on a text that is no number."""
    tries: list[str] = []

    def parse(text: str) -> int:
        if not text.isdigit():
            tries.append(text)
            if len(tries) <= times:
                raise error(text)
            return -len(tries)
        return int(text)

    return parse


def retried(times: int, handler: Any, **settings: Any) -> Any:
    """Run a step that fails so often."""
    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    lines.map_values(failing(times), value=int, name="parse", on_error=handler).to("out")
    return outcome(builder, **settings)


@pytest.mark.parametrize(
    "handler",
    [RETRY, Retry(attempts=3), lambda _error, _record, _context: RETRY],
    ids=["RETRY", "Retry", "function"],
)
def test_a_record_is_tried_again_as_often_as_is_said(handler: Any) -> None:
    """Twice more by default; the records around it are handled once."""
    out, letters, counts = retried(2, handler)
    assert (out, letters) == ([1, -3, 3], [])
    assert counts["record_retries:parse"] == 2
    assert "failed_records:parse" not in counts


def test_when_all_attempts_have_failed_the_application_stops_and_says_how_often() -> None:
    """Unless ``then`` says otherwise."""
    with pytest.raises(DataError, match="parse") as caught:
        retried(9, Retry(attempts=4))
    assert caught.value.fields["attempts"] == 4
    assert "attempts: 4" in " ".join(str(caught.value).split())
    out, letters, counts = retried(9, Retry(attempts=4, then="dead_letter"))
    assert out == [1, 3]
    assert dict(letters[0].headers)["mustela.error.attempts"] == b"4"
    assert (counts["record_retries:parse"], counts["dead_letters:parse"]) == (3, 1)


def test_only_some_errors_are_tried_again() -> None:
    """Others are final at once."""
    only = Retry(attempts=5, on=(TimeoutError,), then="continue")
    out, _, counts = retried(1, only)
    assert out == [1, 3]
    assert "record_retries:parse" not in counts


def test_a_handler_may_say_how_often_by_itself_and_sees_each_attempt() -> None:
    """``Retry`` is an answer, too."""
    seen: list[int] = []

    def patient(_error: Exception, _record: Any, context: ErrorContext) -> Any:
        seen.append(context.attempt)
        return Retry(attempts=3) if context.attempt < 3 else CONTINUE

    out, _, _ = retried(9, patient)
    assert (out, seen) == ([1, 3], [1, 2, 3])


def test_waits_double_up_to_the_longest() -> None:
    """By the engine's clock; the test driver does not wait."""
    from mustela.api.handlers import Handling
    from mustela.plan.handling import Asked

    waits: list[float] = []
    retry = Retry(
        attempts=6, initial=timedelta(milliseconds=100), maximum=timedelta(milliseconds=300)
    )
    asked, rows = Asked(Handling(retry=retry), "s", None), object()
    answers: list[str] = []
    for _ in range(6):
        asked.take(rows, 0)
        context = ErrorContext(kind="processing", step="s")
        answers.append(
            asked.answer(
                ValueError(), Record(None, None), context, repeats=True, pause=waits.append
            )
        )
    assert waits == [0.1, 0.2, 0.3, 0.3, 0.3]
    assert answers == ["retry"] * 5 + ["fail"]


def test_a_record_takes_the_place_of_one_that_failed() -> None:
    """At its place among the others, with the step's outcome."""

    def default(_error: Exception, record: Record[Any, Any], _context: Any) -> Any:
        return record.with_value(0)

    out, letters, counts = outcome(parsing(on_error=default))
    assert (out, letters) == ([1, 0, 3], [])
    assert counts["replaced_records:parse"] == 1


def test_several_records_may_take_its_place() -> None:
    """In their order."""

    def two(_error: Exception, record: Record[Any, Any], _context: Any) -> Any:
        return [record.with_value(10), record.with_value(20)]

    assert outcome(parsing(on_error=two))[0] == [1, 10, 20, 3]


def test_a_step_that_keeps_keys_keeps_them() -> None:
    """What comes behind counts on it."""

    def other(_error: Exception, record: Record[Any, Any], _context: Any) -> Any:
        return record.with_key("other").with_value(0)

    with pytest.raises(DataError, match="keeps keys") as caught:
        outcome(parsing(on_error=other))
    assert caught.value.code == "ERROR_HANDLER_ANSWER"


def test_a_source_has_its_own_handler_and_may_replace_what_cannot_be_read() -> None:
    """The record has the bytes as they were read."""
    seen: list[Any] = []

    def read(error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        seen.append((type(error).__name__, record.value, context.kind, context.source_raw_value))
        return record.with_key("k").with_value(-1)

    builder = StreamsBuilder()
    consumed = Consumed(key=str, value=int, on_error=read)
    builder.stream("in", consumed).to("out")
    good = (1).to_bytes(8, "big")
    out, _, counts = outcome(builder, [good, b"bad", good])
    assert out == [1, -1, 1]
    assert seen == [("SerdeError", b"bad", "deserialization", b"bad")]
    assert counts["replaced_records:in"] == 1


def test_a_sink_has_its_own_handler_and_may_write_another_record() -> None:
    """What takes the place of a row is written in its order."""

    def smaller(_error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        assert context.kind == "production"
        return record.with_value(0)

    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=str).map_values(
        lambda text: 2**70 if text == "x" else int(text)
    )
    numbers.to("out", produced=Produced(key=str, value=int, on_error=smaller))
    assert outcome(builder)[0] == [1, 0, 3]
    numbers = StreamsBuilder()
    lines = numbers.stream("in", key=str, value=str).map_values(lambda _text: 2**70)
    lines.to("out", value=int, on_error=lambda _error, record, _context: record)
    with pytest.raises(DataError) as caught:
        outcome(numbers)
    assert caught.value.code == "SERIALIZATION"


def test_what_is_written_before_a_failure_is_taken_back_for_the_next_attempt() -> None:
    """A processor that is tried again finds its stores, and what it forwarded, as they were."""

    class Count(ContextualProcessor[str, str, str, int]):
        tries = 0

        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("seen")
            count = (store.get("n") or 0) + 1
            store.put("n", count)
            self.context.forward(record.with_value(count))
            if record.value == "x":
                Count.tries += 1
                if Count.tries < 3:
                    raise ValueError(record.value)

    builder = StreamsBuilder().add_state_store(store("seen", key=str, value=int))
    lines = builder.stream("in", key=str, value=str)
    counted = lines.process(Count, stores=["seen"], name="count", value=int, on_error=RETRY)
    counted.to("out", key=str)
    out, _, counts = outcome(builder)
    assert out == [1, 2, 3]
    assert counts["record_retries:count"] == 2


@pytest.mark.parametrize(
    ("handler", "code", "told"),
    [
        (lambda _error, _record, _context: None, "ERROR_HANDLER_ANSWER", "answered None"),
        (lambda _error, _record, _context: [1], "ERROR_HANDLER_ANSWER", "answered [1]"),
        (lambda _error, _record, context: context.nothing, "ERROR_HANDLER_FAILED", "AttributeE"),
        (lambda _error, _record, _context: FAIL, "PROCESSING", "ValueError"),
    ],
    ids=["nothing", "no record", "raises", "fails"],
)
def test_a_handler_that_is_wrong_is_named(handler: Any, code: str, told: str) -> None:
    """With the step, and the error that it was asked about."""
    with pytest.raises(DataError) as caught:
        outcome(parsing(on_error=handler))
    assert caught.value.code == code
    assert told in str(caught.value)
    assert caught.value.fields["step"] == "parse"


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("ignore", "on_error='ignore'"),
        (7, "on_error=7"),
        (lambda error: error, "(error, record, context)"),
        (print, ""),
    ],
    ids=["word", "number", "arity", "builtin"],
)
def test_what_cannot_be_a_handler_is_refused_when_it_is_written(handler: Any, told: str) -> None:
    """With the user's line."""
    if handler is print:
        parsing(on_error=handler)  # it does not say what it takes
        return
    with pytest.raises(UsageError) as caught:
        parsing(on_error=handler)
    assert told in str(caught.value)
    assert caught.value.at is not None


def test_a_handler_is_named_in_the_settings(tmp_path: Any, monkeypatch: Any) -> None:
    """As module:function; also as Kafka Streams names the setting."""
    (tmp_path / "shop_errors.py").write_text(
        "def on_error(error, record, context):\n    return record.with_value(0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("processing_handler", "processing.exception.handler"):
        settings: Any = {name: "shop_errors:on_error"}
        assert outcome(parsing(), **settings)[0] == [1, 0, 3]


def test_the_texts_of_a_letter_are_short_and_without_secrets() -> None:
    """What looks like a password is masked; a long text is cut; Kafka Streams' names are there."""

    def leaks(_value: str) -> int:
        told = f"http://joe:hunter2@shop/ password=hunter2 {'x' * 5000}"
        raise ValueError(told)

    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    lines.map_values(leaks, value=int, name="parse", on_error=DEAD_LETTER).to("out")
    _, letters, _ = outcome(builder)
    headers = dict(letters[0].headers)
    assert b"hunter2" not in b"".join(value or b"" for value in headers.values())
    assert all(len(value or b"") < 1_100 for value in headers.values())
    assert headers["__streams.errors.exception"] == b"ValueError"
    assert headers["__streams.errors.message"] == headers["mustela.error.text"]
    place = [headers[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")]
    assert place == [b"in", b"0", b"0"]


@pytest.mark.parametrize("lanes", [1, 3])
def test_crashes_and_lanes_change_nothing(lanes: int) -> None:
    """Failed, retried and replaced records give the same results after every restart."""

    class Sum(ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            store = self.context.state_store("sums")
            total = (store.get(record.key) or 0) + record.value
            store.put(record.key, total)
            if total == 3:
                raise ValueError(total)
            self.context.forward(record.with_value(total))

    def zero(_error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        return record.with_value(0) if context.attempt == 2 else RETRY

    builder = StreamsBuilder().add_state_store(store("sums", key=str, value=int))
    numbers = builder.stream("in", key=str, value=str).map_values(int, value=int, on_error=zero)
    sums = numbers.process(Sum, stores=["sums"], name="sum", value=int, on_error=zero)
    sums.to("out", key=str)
    rows = [(key, text) for text in ("1", "x", "2", "4") for key in "abc"]
    found: list[Any] = []
    for crash in (False, True):
        with TopologyTestDriver(
            builder, key_groups=8, lanes=lanes, crash_after_every_record=crash
        ) as driver:
            driver.create_input_topic("in").pipe_key_value_list(rows)
            found.append(driver.create_output_topic("out").read_key_values_to_list())
    assert found[0] == found[1]
    assert found[0][-3:] == [("a", 7), ("b", 7), ("c", 7)]
    assert found[0][6:9] == [("a", 0), ("b", 0), ("c", 0)]


def test_a_processor_that_gives_up_leaves_what_its_last_attempt_wrote() -> None:
    """As in Kafka Streams; a fold leaves nothing."""

    class Half(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("half")
            store.put(record.key, (store.get(record.key) or 0) + 1)
            raise ValueError(record.value)

    builder = StreamsBuilder().add_state_store(store("half", key=str, value=int))
    lines = builder.stream("in", key=str, value=str)
    lines.process(Half, stores=["half"], on_error=Retry(attempts=3, then="continue"))

    def add(_key: str, value: str, seen: list[str]) -> list[str]:
        seen.append(value)
        if value == "x":
            raise ValueError(value)
        return seen

    lines.group_by_key().aggregate(list, add, store="seen")
    with TopologyTestDriver(builder, settings={"processing_handler": "continue"}) as driver:
        driver.create_input_topic("in").pipe_key_value_list([("k", "1"), ("k", "x"), ("k", "2")])
        assert driver.get_key_value_store("half").get("k") == 3
        assert driver.get_key_value_store("seen").get("k") == ["1", "2"]


def test_a_fold_and_a_table_have_their_own_handlers() -> None:
    """Also in windows; what failed changes nothing, and nothing can take its place."""
    from mustela import TimeWindows

    def add(_key: str, value: str, total: int) -> int:
        return total + int(value)

    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    sums = grouped.aggregate(int, add, value=int, store="sums", on_error="continue")
    sums.to_stream().to("out")
    hours = TimeWindows(size=timedelta(hours=1), grace=timedelta(0))
    hourly = grouped.windowed_by(hours)
    hourly.aggregate(int, add, value=int, store="hourly", on_error=DEAD_LETTER)
    grouped.reduce(
        lambda one, other: str(int(one) + int(other)),
        store="reduced",
        on_error=lambda _error, record, _context: CONTINUE,
    )
    rows = builder.table("rows", Consumed(key=str, value=int, on_error="continue"), store="rows")
    rows.to_stream().to("copied")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_key_value_list([("k", "1"), ("k", "x"), ("k", "2")])
        assert driver.create_output_topic("out").read_values_to_list() == [1, 3]
        assert driver.get_key_value_store("reduced").get("k") == "3"
        letters = driver.create_output_topic(LETTERS).read_records_to_list()
        assert [letter.value for letter in letters] == [b"x"]
        bad = driver.create_input_topic("rows", value=bytes)
        bad.pipe_input("k", b"bad")
        bad.pipe_input("k", (5).to_bytes(8, "big"))
        assert driver.create_output_topic("copied").read_values_to_list() == [5]
    other = StreamsBuilder()
    lines = other.stream("in", key=str, value=str).group_by_key()
    lines.aggregate(
        int, add, value=int, store="sums", on_error=lambda _error, record, _context: record
    )
    with TopologyTestDriver(other) as driver, pytest.raises(DataError, match="take the place"):
        driver.create_input_topic("in").pipe_input("k", "x")


def test_a_global_table_has_no_handler_of_its_own() -> None:
    """Its rows are decoded where they are looked up."""
    with pytest.raises(UsageError, match="takes no on_error"):
        StreamsBuilder().global_table("t", Consumed(key=str, value=int, on_error="continue"))


def test_kafka_streams_names_are_there_or_answered() -> None:
    """A handler may derive from its interface; what is sought in the package is shown."""
    import mustela
    from mustela.handlers import ProcessingExceptionHandler

    class Mine(ProcessingExceptionHandler):
        def handle(self, context: Any, record: Any, exception: Any, /) -> Any:
            return record.with_value(0)

    assert outcome(parsing(on_error=Mine))[0] == [1, 0, 3]
    for name in ("DeserializationExceptionHandler", "LogAndContinueExceptionHandler", "CONTINUE"):
        with pytest.raises(UsageError, match="handlers"):
            getattr(mustela, name)
