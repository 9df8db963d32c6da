"""Spans of records that carry a trace context, in the test driver and an in-memory exporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mustela import Processor, ProcessorContext, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.model import Headers

TRACED = {"application_id": "shop", "traces": {"enabled": True}}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider, made = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield made
    provider.shutdown()


def carrying(number: int, *, sampled: bool = True) -> Headers:
    """Headers of trace ``number``, from a span of the same number."""
    flags = "01" if sampled else "00"
    return (("traceparent", f"00-{number:032x}-{number:016x}-{flags}".encode()), ("id", b"7"))


def context(headers: Headers) -> tuple[int, int]:
    """Trace and span that headers name."""
    value = (dict(headers)["traceparent"] or b"").decode()
    _, trace_id, span_id, _ = value.split("-")
    return int(trace_id, 16), int(span_id, 16)


def own(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def links(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(link.context.trace_id, link.context.span_id) for link in span.links}


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


@contextmanager
def driver(builder: StreamsBuilder, **more: Any) -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(builder, settings={**TRACED, **more}) as made:
        yield made


def copies() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(str.upper).filter(lambda _key, value: value != "X").to("out", value=str)
    return builder


def test_a_record_that_carries_a_context_continues_its_trace(
    exporter: InMemorySpanExporter,
) -> None:
    """Its span is a child of the sender's, and the output names that span as its parent."""
    with driver(copies()) as tested:
        tested.create_input_topic("lines").pipe_input("k", "a", headers=carrying(5))
        (record,) = tested.create_output_topic("out").read_records_to_list()
    (span,) = named(exporter, "lines process")
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id, span.parent.is_remote) == (5, 5, True)
    assert own(span)[0] == 5
    assert own(span)[1] != 5
    assert context(record.headers) == own(span)
    assert ("id", b"7") in record.headers
    assert span.kind is trace.SpanKind.CONSUMER
    (epoch,) = named(exporter, "epoch")
    assert links(span) == {own(epoch)}
    assert span.attributes is not None
    told = {name: span.attributes[name] for name in span.attributes if name[:9] == "messaging"}
    assert told == {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": "lines",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.consumer.group.name": "shop",
    }


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("id", b"7"),),
        carrying(5, sampled=False),
        (("traceparent", b"00-zz-5-01"),),
        (("traceparent", b"ff" + (carrying(5)[0][1] or b"")[2:]),),
        (("traceparent", (carrying(5)[0][1] or b"") + b"-more"),),
        (("traceparent", None),),
        carrying(0),
    ],
)
def test_a_record_without_a_sampled_context_is_left_alone(
    exporter: InMemorySpanExporter, headers: Headers
) -> None:
    """Nor is what is no context at all."""
    with driver(copies()) as tested:
        tested.create_input_topic("lines").pipe_input("k", "a", headers=headers)
        (record,) = tested.create_output_topic("out").read_records_to_list()
    assert record.headers == headers
    assert [span.name for span in exporter.get_finished_spans()] == ["epoch"]


def test_off_costs_no_header_and_no_span(exporter: InMemorySpanExporter) -> None:
    """The header travels as any other does."""
    with TopologyTestDriver(copies()) as tested:
        tested.create_input_topic("lines").pipe_input("k", "a", headers=carrying(5))
        (record,) = tested.create_output_topic("out").read_records_to_list()
    assert record.headers == carrying(5)
    assert exporter.get_finished_spans() == ()


def counted() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)
    return builder


def test_an_aggregate_continues_one_trace_and_links_the_others(
    exporter: InMemorySpanExporter,
) -> None:
    """Those of its key in the epoch; a record without a context takes nothing away."""
    with driver(counted()) as tested:
        lines = tested.create_input_topic("lines")
        with tested.epoch():
            lines.pipe_input("k", "a", headers=carrying(5))
            lines.pipe_input("k", "b", headers=carrying(6))
            lines.pipe_input("k", "c")
            lines.pipe_input("other", "d", headers=carrying(7))
        results = tested.create_output_topic("out").read_records_to_list()
    by_key = {record.key: record for record in results}
    spans = {own(span)[0]: span for span in named(exporter, "lines process")}
    assert context(by_key["other"].headers) == own(spans[7])
    trace_id, span_id = context(by_key["k"].headers)
    steps = {own(span): span for span in exporter.get_finished_spans()}
    met = steps[trace_id, span_id]
    assert trace_id == 6
    assert met.attributes is not None
    assert met.attributes["mustela.step"] == "lines.count"
    assert own(spans[5]) in links(met)


def test_both_sides_of_a_join_are_named(exporter: InMemorySpanExporter) -> None:
    """The result continues the record that it has its headers from, and links the table's."""
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=str, store="prices")
    orders = builder.stream("orders", key=str, value=str)
    orders.join(prices, lambda order, price: order + price, name="priced").to("out", value=str)
    with driver(builder) as tested:
        with tested.epoch():
            tested.create_input_topic("prices").pipe_input("k", "1", 0, headers=carrying(5))
            tested.create_input_topic("orders").pipe_input("k", "o", 1, headers=carrying(6))
        (record,) = tested.create_output_topic("out").read_records_to_list()
    (price,), (order,) = named(exporter, "prices process"), named(exporter, "orders process")
    (met,) = named(exporter, "priced")
    assert context(record.headers) == own(met)
    assert met.parent is not None
    assert (met.parent.trace_id, met.parent.span_id) == own(order)
    assert own(price) in links(met)


def test_a_rerun_names_the_same_spans(exporter: InMemorySpanExporter) -> None:
    """So an epoch that runs again gives the same rows; spans are made once, after its commit."""
    contexts: list[tuple[int, int]] = []
    for crashes in (False, True):
        with TopologyTestDriver(
            copies(), settings=TRACED, crash_after_every_record=crashes
        ) as tested:
            tested.create_input_topic("lines").pipe_input("k", "a", headers=carrying(5))
            (record,) = tested.create_output_topic("out").read_records_to_list()
        contexts.append(context(record.headers))
        assert len(named(exporter, "lines process")) == 1
        exporter.clear()
    assert contexts[0] == contexts[1]


def test_the_sampler_of_the_program_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its limits and exporters do."""
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    provider, made = TracerProvider(sampler=ALWAYS_OFF), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with driver(copies()) as tested:
        tested.create_input_topic("lines").pipe_input("k", "a", headers=carrying(5))
    assert made.get_finished_spans() == ()


class Later(Processor[str, str, str, str]):
    """Keeps a record with its headers, and forwards the one before it with those that it had."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        seen = self.context.get_state_store("seen")
        before = seen.get(record.key)
        seen.put(record.key, record.value, timestamp=record.timestamp, headers=record.headers)
        if before is not None:
            kept = record.with_value(before.value).with_headers(before.headers)
            self.context.forward(kept)


def test_a_store_with_headers_keeps_the_context_for_later_epochs(
    exporter: InMemorySpanExporter,
) -> None:
    """What is forwarded with the headers of a row continues the trace of that row's record."""
    builder = StreamsBuilder()
    seen = Stores.persistent_timestamped_key_value_store_with_headers("seen")
    builder.add_state_store(
        Stores.timestamped_key_value_store_with_headers_builder(seen, key=str, value=str)
    )
    lines = builder.stream("lines", key=str, value=str)
    lines.process(Later, stores=["seen"], name="later").to("out", key=str, value=str)
    with driver(builder) as tested:
        lines_in = tested.create_input_topic("lines")
        lines_in.pipe_input("k", "first", headers=carrying(5))
        lines_in.pipe_input("k", "second", headers=carrying(6))
        (record,) = tested.create_output_topic("out").read_records_to_list()
    spans = {own(span)[0]: span for span in named(exporter, "lines process")}
    assert record.value == "first"
    assert context(record.headers) == own(spans[5])
