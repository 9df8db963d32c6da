"""Applications over what there is: inputs, refusals, results; see also tests/differential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import App, BatchInput, Consumed, StreamsBuilder, TimeWindows
from mustela.model import TopicPartition
from mustela.queries.errors import UnknownStoreError
from mustela.runtime.batch import BatchEngineError, BatchInputError, BatchRefusedError, batch
from mustela.spark import files
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.spark.batch import segments
from mustela.spark.batch.cutting import Cutter
from mustela.spark.batch.segments import PartitionIndex, write_records
from mustela.spark.files import RECORDS, FileReader
from mustela.windows import EmitStrategy, WallclockTimestampExtractor
from tests.batches import batched, rows, table

MINUTE = 60_000


@dataclass
class Order:
    customer: str
    total: int


def app_of(build: Any, **settings: Any) -> App:
    app = App("batches", settings)
    app.topology(build)
    return app


def copies(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out")


def totals(builder: StreamsBuilder) -> None:
    orders = builder.stream("orders", key=str, value=Order)
    grouped = orders.group_by(lambda _key, order: order.customer, key=str)
    grouped.aggregate(int, lambda _k, o, t: t + o.total, value=int, store="t").to_stream().to("out")


def minutes(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    windows = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    final = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    final.count(store="minutes").to_stream().to("out", value=int)


def test_columns_together_are_a_value(tmp_path: Path) -> None:
    """As its fields; a Parquet file does as well as a table, and times may be timestamps."""
    data = pa.table(
        {
            "customer": ["ann", "bob", "ann"],
            "total": [1, 2, 3],
            "at": [datetime(2024, 1, 1, 0, minute, tzinfo=UTC) for minute in (2, 1, 0)],
        }
    )
    pq.write_table(data, tmp_path / "orders.parquet")
    for given_data in (data, tmp_path / "orders.parquet", str(tmp_path)):
        given_input = BatchInput(data=given_data, timestamp="at")
        with batched(app_of(totals, emit="every"), {"orders": given_input}) as result:
            assert [row[:2] for row in rows(result, "out") if row[0] == "ann"] == [
                ("ann", 3),
                ("ann", 4),
            ]
            assert list(result) == ["out"]
            assert result.counters["records:orders"] == 3


def test_times_inside_of_a_value_may_be_of_nanoseconds() -> None:
    """Those of pandas are; alone, in lists and in structs."""

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=dict)
        stream.map_values(lambda value: value["at"], value=str).to("out")

    at = pa.array([1_500_000_000], pa.timestamp("ns"))
    data = pa.table({"at": at, "all": pa.array([[None]], pa.list_(at.type)), "timestamp": [1]})
    with batched(app_of(build), {"in": data}) as result:
        assert rows(result, "out") == [(None, "1970-01-01T00:00:01.500000", 1)]


def test_a_row_without_any_field_deletes() -> None:
    """Its key stays; columns that Kafka's source has beside the value are not fields."""

    def build(builder: StreamsBuilder) -> None:
        builder.table("in", key=str, value=dict, store="t").to_stream().to("out")

    data = pa.table(
        {
            "key": ["a", "a"],
            "n": pa.array([1, None], pa.int64()),
            "topic": ["in", "in"],
            "timestamp": [1, 2],
        }
    )
    with batched(app_of(build, emit="every"), {"in": data}) as result:
        assert rows(result, "out") == [("a", '{"n":1}', 1), ("a", None, 2)]


def test_bytes_and_headers_are_those_of_a_topic() -> None:
    """As Spark's Kafka source gives them."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    data = pa.table(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([b"v"], pa.binary()),
            "timestamp": [7],
            "headers": pa.array([[{"key": "h", "value": b"1"}]], kind),
        }
    )
    with batched(app_of(copies), {"in": data}) as result:
        (row,) = result.to_arrow("out").to_pylist()
    assert (row["key"], row["value"], row["headers"]) == ("k", "v", [{"key": "h", "value": b"1"}])


def test_records_come_in_the_order_of_their_times_or_of_their_offsets() -> None:
    """By offset a late record is late: its window is closed."""
    records = [("k", "1", 0), ("k", "2", 2 * MINUTE), ("k", "3", 1)]
    plain = table(*records)
    with batched(app_of(minutes), {"in": plain}, flush=True) as result:
        assert [(row[0]["start"].minute, row[1]) for row in rows(result, "out")] == [(0, 2), (2, 1)]
    offsets = plain.append_column("offset", pa.array([5, 6, 9]))
    with batched(app_of(minutes), {"in": offsets}, flush=True) as result:
        assert [(row[0]["start"].minute, row[1]) for row in rows(result, "out")] == [(0, 1), (2, 1)]


def test_what_a_stream_would_still_hold_back_is_flushed_on_request() -> None:
    """A window that is open at the end gives no final result otherwise."""
    data = table(("k", "1", 0), ("k", "2", MINUTE))
    for flush, wanted in ((False, [1]), (True, [1, 1])):
        with batched(app_of(minutes), {"in": data}, flush=flush) as result:
            assert [row[1] for row in rows(result, "out")] == wanted


def test_stores_are_read_as_those_of_an_application() -> None:
    """As they were at the end, by keys and by windows."""

    def build(builder: StreamsBuilder) -> None:
        totals(builder)
        minutes(builder)

    orders = pa.table(
        {"customer": ["ann", "bob", "ann"], "total": [1, 2, 3], "timestamp": [1, 2, 3]}
    )
    inputs = {"orders": orders, "in": table(("k", "1", 0), ("k", "2", MINUTE))}
    with batched(app_of(build), inputs, epoch_records=2) as result:
        assert dict(result.store("t")) == {"ann": 4, "bob": 2}
        assert result.store("t")["ann"] == 4
        assert len(list(result.store("minutes").fetch("k", 0, 2 * MINUTE))) == 2
        with pytest.raises(UnknownStoreError):
            result.store("none")


def test_bad_records_are_dead_letters() -> None:
    """With their bytes, and headers that say why."""
    data = pa.table({"key": ["k"], "value": [b"no number"], "timestamp": [1]})

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).to("out")

    app = app_of(build, deserialization_handler="dead_letter")
    with batched(app, {"in": data}) as result:
        (letter,) = result.to_arrow("~letters").to_pylist()
        assert letter["value"] == b"no number"
        assert {h["key"]: h["value"] for h in letter["headers"]}["mustela.error.topic"] == b"in"
        assert rows(result, "out") == []


def test_a_time_that_the_source_takes_from_its_value_is_the_order() -> None:
    """So there need be no column of times."""

    def build(builder: StreamsBuilder) -> None:
        consumed = Consumed(timestamp_extractor=lambda record, _time: record.value["at"])
        stream = builder.stream("in", consumed, key=str, value=dict)
        stream.map_values(lambda value: value["n"], value=int).to("out", key=str, value=int)

    data = pa.table({"key": ["k", "k"], "at": [9, 5], "n": [1, 2]})
    with batched(app_of(build), {"in": data}) as result:
        assert rows(result, "out") == [("k", 2, 5), ("k", 1, 9)]


def test_topics_are_given_all_and_by_their_names() -> None:
    """What the refusal says goes on."""
    app = app_of(copies)
    with pytest.raises(BatchInputError, match="no topic 'inn'") as refused:
        batched(app, {"inn": table()})
    assert refused.value.fix == "give inputs for: in"
    with pytest.raises(BatchInputError, match="no input for topic 'in'") as missing:
        batched(app, {})
    assert missing.value.fix == 'add "in" to the inputs, with no rows if it has none'
    with batched(app, {"in": table()}) as result:
        assert rows(result, "out") == []


@pytest.mark.parametrize(
    ("change", "option", "named"),
    [("timestamp", "timestamp", "at"), ("value", "value", "v")],
)
def test_a_column_that_is_missing_is_named(change: str, option: str, named: str) -> None:
    """With the option that names another one."""
    data = table(("k", "v", 1))
    data = data.rename_columns([named if name == change else name for name in data.schema.names])
    if change == "value":
        data = data.drop_columns(["v"])
    with pytest.raises(BatchInputError, match=f"has no column {change}") as refused:
        batched(app_of(copies), {"in": data})
    assert f'{option}="…"' in (refused.value.fix or "")
    if change == "timestamp":
        with batched(app_of(copies), {"in": BatchInput(data=data, timestamp=named)}) as result:
            assert rows(result, "out") == [("k", "v", 1)]


def test_a_column_of_another_type_is_refused_with_its_name() -> None:
    """A number is no text."""
    data = pa.table({"key": ["k"], "value": [1], "timestamp": [1]})
    with pytest.raises(BatchInputError, match=r"column value .* is int64"):
        batched(app_of(copies), {"in": data})
    data = pa.table({"key": ["k"], "value": ["1"], "timestamp": ["now"]})
    with pytest.raises(BatchInputError, match=r"column timestamp .* no times but string"):
        batched(app_of(copies), {"in": data})


def _calls(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).map_values_async(len, value=int).to("out")


def _by_wall_clock(builder: StreamsBuilder) -> None:
    consumed = Consumed(timestamp_extractor=WallclockTimestampExtractor())
    builder.stream("in", consumed, key=str, value=str).to("out")


def _in_a_circle(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("in")


@pytest.mark.parametrize(
    ("build", "does"),
    [
        (_calls, "calls the outside"),
        (_by_wall_clock, "takes its times from the wall clock"),
        (_in_a_circle, "writes topic 'in', which is read, too"),
    ],
)
def test_a_step_that_no_batch_can_run_is_refused_by_name(build: Any, does: str) -> None:
    """Before anything runs."""
    with pytest.raises(BatchRefusedError, match=does) as refused:
        batched(app_of(build), {"in": table()})
    assert refused.value.fields["step"] in str(refused.value)


def test_no_time_passes_after_the_last_record_by_stream_time() -> None:
    """So nothing can be flushed; by the watermark it can."""
    app = app_of(copies, event_time="stream-time")
    with pytest.raises(BatchRefusedError, match="flush needs event_time = watermark"):
        batched(app, {"in": table()}, flush=True)
    app = app_of(copies, event_time="watermark")
    batched(app, {"in": table()}, flush=True).close()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Neither of a result that is closed, nor of a batch that failed."""
    data = table(("k", "v", 1))
    result = batched(app_of(copies), {"in": data}, directory=str(tmp_path))
    (left,) = tmp_path.iterdir()
    assert {path.name for path in left.iterdir()} <= {"output", "state"}
    result.close()
    assert not list(tmp_path.iterdir())

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=int).to("out")

    with pytest.raises(Exception, match="cannot decode"):
        batched(
            app_of(build),
            {"in": table(("k", b"x", 1))},
            directory=str(tmp_path),
        )
    assert not list(tmp_path.iterdir())


def test_what_a_batch_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark starts."""
    monkeypatch.setattr("mustela.spark.engine.find_spec", lambda name: name == "pyarrow" or None)
    with pytest.raises(BatchEngineError, match="a batch needs pandas") as refused:
        batch(app_of(copies), {"in": table()})
    assert refused.value.fix == "pip install 'mustela[batch]'"


TIMES = st.lists(st.lists(st.integers(0, 30), max_size=30), min_size=1, max_size=3)


@given(TIMES, st.integers(1, 20), st.integers(1, 7))
def test_epochs_read_each_record_once_and_leave_nothing_older_behind(
    tmp_path_factory: pytest.TempPathFactory, times: list[list[int]], records: int, size: int
) -> None:
    """Wherever they are cut, and however many records a file's batches have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BATCH_ROWS", size)
        patch.setattr(segments, "BATCH_ROWS", size)
        scratch = tmp_path_factory.mktemp("cut")
        indexes = {
            TopicPartition("t", number): written(scratch / str(number), column)
            for number, column in enumerate(times)
        }
        running = {place: list(accumulate(times[place.partition], max)) for place in indexes}
        cutter, read = Cutter(indexes, records), dict.fromkeys(indexes, 0)
        while read != {place: index.size for place, index in indexes.items()}:
            cut = cutter.cut(read)
            assert any(cut.ends[place] > read[place] for place in indexes)
            for place, index in indexes.items():
                assert read[place] <= cut.ends[place] <= index.size
                assert all(time >= cut.until for time in running[place][cut.ends[place] :])
                if cut.ends[place] < index.size:
                    assert index.time_at(cut.ends[place]) == running[place][cut.ends[place]]
            read = cut.ends


def written(directory: Path, times: Sequence[int]) -> PartitionIndex:
    directory.mkdir()
    count = len(times)
    batch_of = pa.RecordBatch.from_arrays(
        [
            pa.array([str(n).encode() for n in range(count)], pa.binary()),
            pa.nulls(count, pa.binary()),
            pa.array(times, pa.int64()),
            pa.nulls(count, pa.binary()),
            pa.array(times, pa.int64()),
        ],
        schema=RECORDS,
    )
    index = PartitionIndex(list(write_records(iter([(0, batch_of)]), lambda _p: f"{directory}/0")))
    reader = FileReader({"t": (tuple(index.segments),)})
    for start in range(count):
        keys = [key for chunk in reader.read("t", 0, start, count) for key in chunk.keys]
        assert keys == [str(n).encode() for n in range(start, count)]
    return index
