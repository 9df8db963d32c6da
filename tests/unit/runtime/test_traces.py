"""Spans of epochs: when they are made, and what is refused."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mustela import App
from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.plan.epoch import TaskReport
from mustela.plan.traces import TraceContext, Traced
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.events import EpochDone, Listener
from mustela.runtime.life.life import Life
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.traces import NotTracedError, make_spans

SETTINGS = {"application_id": "shop", "traces": {"enabled": True}}
RECORD = Traced(
    "lines", TraceContext("5" * 32, "6" * 16), TraceContext("5" * 32, "7" * 16), (), 3, 0
)


class Told:
    """An application's loop, its board, and what makes spans of both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        self.clock = ManualClock(1_000)
        self.board = StatusBoard(self.clock)
        self.barrier = Barrier(incarnation=1, last_epoch=0, on_phase=self.board.phase)
        self.listeners: list[Listener] = [self.board]
        for _ in ("a start", "a restart"):
            make_spans(Settings.load(SETTINGS, environ={}), self.board, self.listeners)

    def tries(self, *, commits: bool) -> None:
        """Run an attempt of an epoch: 10 ms to choose, 20 for each phase after that."""
        self.board.begin_turn(self.barrier)
        self.clock.advance(10)
        self.barrier.start()
        self.clock.advance(20)
        if not commits:
            self.barrier.give_up()
            return
        for phase in (Phase.IN_HAND, Phase.BEGUN, Phase.PRODUCED, Phase.OFFSETS_ADDED):
            self.barrier.move(phase)
            self.clock.advance(20)
        self.barrier.move(Phase.COMMIT_SENT)
        self.clock.advance(20)
        self.barrier.committed()

    def commits(self) -> None:
        self.tries(commits=True)
        facts: dict[str, Any] = {"records": 9, "lag": 0, "seconds": 0.1, "job_seconds": 0.05}
        report = TaskReport(stage=0, task=0, traced=[RECORD])
        done = EpochDone(
            epoch=self.barrier.last_epoch, watermark=-1, counters={}, reports=[report], **facts
        )
        for listener in self.listeners:
            listener.on_event(done)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_an_epoch_is_a_span_with_its_phases_inside(told: Told) -> None:
    """With the times that they took; a record's span lasts as long as its epoch."""
    told.commits()
    (epoch,) = told.spans("epoch")
    assert epoch.parent is None
    assert (epoch.start_time, epoch.end_time) == (1_000_000_000, 1_130_000_000)
    assert epoch.attributes is not None
    facts = {name: epoch.attributes[f"mustela.{name}"] for name in ("epoch", "records", "outcome")}
    assert facts == {"epoch": 1, "records": 9, "outcome": "committed"}
    inside = [span for span in told.exporter.get_finished_spans() if span.parent == epoch.context]
    assert [span.name for span in inside][:3] == ["choosing", "running", "in-hand"]
    assert (inside[0].start_time, inside[0].end_time) == (1_000_000_000, 1_010_000_000)
    assert (inside[-1].start_time, inside[-1].end_time) == (1_110_000_000, 1_130_000_000)
    (record,) = told.spans("lines process")
    assert record.parent is not None
    assert (record.start_time, record.end_time) == (epoch.start_time, epoch.end_time)
    assert record.context is not None
    assert f"{record.context.span_id:x}" == RECORD.context.span_id
    assert f"{record.parent.span_id:x}" == RECORD.parent.span_id


def test_an_attempt_that_was_given_up_is_a_failed_span_without_records(told: Told) -> None:
    """A record that runs again has one span: that of the attempt that was committed."""
    told.tries(commits=False)
    told.commits()
    told.commits()
    given_up, *others = told.spans("epoch")
    assert given_up.status.status_code is trace.StatusCode.ERROR
    assert given_up.attributes is not None
    assert (given_up.attributes["mustela.epoch"], given_up.attributes["mustela.attempt"]) == (1, 0)
    assert [span.status.status_code for span in others] == [trace.StatusCode.UNSET] * 2
    assert len(told.spans("lines process")) == 2


def test_a_processor_that_raises_ends_nothing(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The spans of that epoch are lost, and the log says so."""

    def broken(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(SimpleSpanProcessor, "on_end", broken)
    with caplog.at_level(logging.WARNING, "mustela.traces"):
        told.commits()
    assert "the spans of epoch 1 are lost" in caplog.text


def test_traces_that_nothing_takes_are_refused_before_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a span would be made for nobody; with what the fix says to set it goes on."""
    monkeypatch.setattr(Life, "live", lambda _life: None)
    app = App("shop", settings={"traces.enabled": True, "bootstrap_servers": "x:1"})
    app.topology(lambda builder: builder.stream("in").to("out"))
    with pytest.raises(NotTracedError, match="no tracer provider") as refused:
        app.start()
    assert "set_tracer_provider(TracerProvider())" in str(refused.value)
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    app.run()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    import sys

    board = StatusBoard(ManualClock(0))
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(NotTracedError) as refused:
        make_spans(Settings.load(SETTINGS, environ={}), board, [])
    assert "pip install 'mustela[otel]'" in str(refused.value)
    listeners: list[Listener] = []
    make_spans(Settings.load({"application_id": "shop"}, environ={}), board, listeners)
    assert listeners == []
