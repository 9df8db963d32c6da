"""Traces over Kafka and Spark: from the sender's span to the header of the result."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mustela import StreamsBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def sender(number: int) -> list[tuple[str, bytes]]:
    return [("traceparent", f"00-{number:032x}-{number:016x}-01".encode())]


def own(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def carried(headers: dict[str, Any]) -> tuple[int, int]:
    _, trace_id, span_id, _ = headers["traceparent"].decode().split("-")
    return int(trace_id, 16), int(span_id, 16)


def test_a_trace_goes_through_workers_shuffle_and_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks say which spans there are; the driver makes each once, when its epoch is committed."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    source, loud, counts = world.topic("in", 2), world.topic("loud"), world.topic("counts")
    for number, key in ((5, "a"), (6, "a"), (7, "b")):
        world.send_with_headers(source, key, f"v{number}", sender(number))
    world.send(source, [("c", "without")])

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str)
        lines.map_values(str.upper, name="shout").to(loud, key=str, value=str)
        counted = lines.group_by_key().count(store="counts", name="counted")
        counted.to_stream().to(counts, key=str, value=int)

    world.run(build, traces={"enabled": True})
    spans = exporter.get_finished_spans()
    records = {own(span)[0]: span for span in spans if span.name == f"{source} process"}
    assert sorted(records) == [5, 6, 7]
    epochs = {own(span) for span in spans if span.name == "epoch"}
    for number, span in records.items():
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (number, number)
        assert {own_link(link) for link in span.links} <= epochs
    copies = {row.value: row.headers for row in world.rows(loud)}
    for number in (5, 6, 7):
        assert carried(copies[f"V{number}".encode()]) == own(records[number])
    assert "traceparent" not in copies[b"WITHOUT"]
    results = {row.key: row.headers for row in world.rows(counts)}
    assert carried(results[b"b"]) == own(records[7])
    met = {own(span): span for span in spans if span.name == "counted"}
    assert carried(results[b"a"])[0] in (5, 6)
    linked = {own_link(link) for link in met[carried(results[b"a"])].links}
    other = {5: 6, 6: 5}[carried(results[b"a"])[0]]
    assert own(records[other]) in linked
    assert "traceparent" not in results[b"c"]


def own_link(link: Any) -> tuple[int, int]:
    return link.context.trace_id, link.context.span_id
