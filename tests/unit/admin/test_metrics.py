"""The metrics: what is counted, by which names."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mustela.admin.catalogue import CATALOGUE
from mustela.admin.kafka_streams import KAFKA_STREAMS, streams_name
from mustela.admin.metrics import AppCollector
from mustela.admin.processes import Processes
from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from tests.unit.admin.fakes import FakeApp


@pytest.fixture
def app(tmp_path: Path) -> FakeApp:
    return FakeApp(tmp_path)


def scraped(app: FakeApp) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return each sample by its name and the values of its labels."""
    text = app.client().get("/metrics").text
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_that_is_shown_is_in_the_catalogue_and_the_other_way_round(
    app: FakeApp, tmp_path: Path
) -> None:
    """With names and labels as the page tells them; nothing stands there that never comes."""
    app.restores(2, 4, counts=5)
    app.indicators.add("db", lambda: True)
    app.runs(first=10)
    counted = ["records", "dropped_late", "failed_records", "dead_letters", "refused_rows"]
    counted += ["calls_ended", "user.mine", "ticks"]
    counts = {f"{name}:x": 1 for name in counted} | {"lanes_away": 1, "bytes_by_owners": 1}
    app.commits(counts, reports=[app.measured()])
    app.board.on_error(EnvironmentFault("away", fix="-"))
    (tmp_path / "orders" / app.plan.stages[1].identity).mkdir(parents=True)
    seen = {name: labels for name, labels, _ in AppCollector(app.watched).samples()}
    assert seen.keys() == CATALOGUE.keys()
    for name, labels in seen.items():
        assert len(labels) == len(CATALOGUE[name].labels), name
        assert name.endswith("_total") == (CATALOGUE[name].kind == "counter"), name


def test_counts_of_tasks_become_metrics_by_what_they_count(app: FakeApp) -> None:
    """Dropped by reason, failed, dead letters, what users count, and what is new."""
    app.runs()
    app.commits({"records:lines": 40, "dropped_late:per_hour": 2, "late:once": 1})
    app.commits({"records:lines": 2, "dropped_null_key:joined": 3, "user.sold:till": 7})
    app.commits({"skipped_invalid_timestamp:lines": 4, "something_new:x": 5, "changelog-rows": 6})
    shown = scraped(app)
    dropped = "mustela_dropped_records_total"
    assert shown["mustela_input_records_total", ("lines",)] == 42
    assert shown[dropped, ("late", "per_hour")] == 2
    assert shown[dropped, ("late", "once")] == 1
    assert shown[dropped, ("null_key", "joined")] == 3
    assert shown[dropped, ("invalid_timestamp", "lines")] == 4
    assert shown["mustela_user_total", ("sold", "till")] == 7
    assert shown["mustela_step_events_total", ("something_new", "x")] == 5
    assert shown["mustela_step_events_total", ("changelog-rows", "")] == 6
    assert shown["mustela_records_read_total", ()] == 12


def test_epochs_are_counted_by_outcome_and_their_times_in_classes_of_seconds(app: FakeApp) -> None:
    """The unit is the second: a commit of 20 ms is 0.02."""
    app.runs()
    app.commits()
    app.begins()
    app.barrier.give_up()
    shown = scraped(app)
    assert shown["mustela_epochs_total", ("committed",)] == 1
    assert shown["mustela_epochs_total", ("given up",)] == 1
    assert shown["mustela_epoch_seconds_count", ()] == 1
    assert shown["mustela_epoch_seconds_sum", ()] == pytest.approx(0.235)
    assert shown["mustela_commit_seconds_sum", ()] == pytest.approx(0.02)
    assert shown["mustela_commit_seconds_bucket", ("0.01",)] == 0
    assert shown["mustela_commit_seconds_bucket", ("0.025",)] == 1
    assert shown["mustela_commit_seconds_bucket", ("+Inf",)] == 1
    assert shown["mustela_epoch_phase_seconds_sum", ("running",)] == pytest.approx(0.2)


def test_lag_and_watermark_are_those_of_the_last_look(app: FakeApp) -> None:
    """In offsets, and in seconds."""
    assert ("mustela_watermark_seconds", ()) not in scraped(app)
    app.runs(first=10)
    shown = scraped(app)
    assert shown["mustela_lag_records", ("0", "lines")] == 3
    assert shown["mustela_lag_records", ("1", "lines")] == 0
    assert shown["mustela_watermark_seconds", ()] == 980.0
    assert shown["mustela_watermark_lag_seconds", ()] == 20.0
    assert shown["mustela_partition_idle", ("0", "lines")] == 0
    app.committed.watermark.rest(TopicPartition("lines", 0), 2_000_000, read_to_end=True)
    app.tells()
    assert scraped(app)["mustela_partition_idle", ("0", "lines")] == 1


def test_odd_names_are_labels_all_the_same(app: FakeApp) -> None:
    """Quotes and line breaks of users' names do not break the format."""
    app.runs()
    app.commits({'user.a"b\\c\nd:x:y': 1})
    assert scraped(app)["mustela_user_total", ('a"b\\c\nd', "x:y")] == 1


def test_what_ended_processes_used_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter does not go back when a worker ends."""
    import mustela.admin.processes as module

    worker = module._Seen(7, 1, "python", started=1, cpu_s=2.5, memory_bytes=10)
    seen = [worker]
    monkeypatch.setattr(module, "_ours", lambda: iter(seen))
    looks = Processes()
    assert looks.look()["worker"] == module.Usage(1, 10, 2.5)
    seen[:] = [worker._replace(started=2, cpu_s=1.0)]
    assert looks.look()["worker"] == module.Usage(1, 10, 3.5)
    seen.clear()
    assert looks.look()["worker"] == module.Usage(0, 0, 3.5)
    assert looks.look()["worker"].cpu_s == 3.5


def test_what_tasks_measure_is_shown_by_step_lane_and_store(app: FakeApp) -> None:
    """Added up over epochs; of stores and what is parked the last that was seen."""
    app.runs()
    app.commits(reports=[app.measured()])
    app.commits(reports=[app.measured()])
    shown = scraped(app)
    assert shown["mustela_step_records_in_total", ("counts",)] == 12
    assert shown["mustela_step_records_out_total", ("counts",)] == 8
    assert shown["mustela_task_records_total", ("1", "0")] == 12
    assert shown["mustela_lane_skew_ratio", ("1",)] == 2.0
    assert shown["mustela_store_rows", ("counts",)] == 3
    assert shown["mustela_store_bytes", ("counts",)] == 8192
    assert shown["mustela_parked_records", ("ask",)] == 5
    assert shown["mustela_standby_lag_records", ()] == 40
    assert shown["mustela_end_to_end_seconds_count", ()] == 2
    assert shown["mustela_kafka_client_total", ("consumer", "bytes_received")] == 100
    assert shown["mustela_kafka_queue_messages", ("consumer",)] == 1
    assert shown["mustela_kafka_round_trip_seconds", ("consumer", "avg")] == 0.003


def test_calls_are_counted_by_how_they_ended(app: FakeApp) -> None:
    """And how often they had to be tried."""
    app.runs()
    app.commits({"calls_ended:ask": 5, "calls_failed:ask": 2, "call_retries:ask": 9})
    shown = scraped(app)
    assert shown["mustela_calls_total", ("ended", "ask")] == 5
    assert shown["mustela_calls_total", ("failed", "ask")] == 2
    assert shown["mustela_calls_total", ("retried", "ask")] == 9


@pytest.mark.parametrize("naming", ["jmx", "micrometer"])
def test_names_of_kafka_streams_are_shown_when_asked_for(tmp_path: Path, naming: str) -> None:
    """All that the page lists, with the labels that it lists, and Kafka Streams' units."""
    app = FakeApp(tmp_path, admin__kafka_streams_names=naming)
    app.runs(first=10)
    app.commits({"dropped_late:counts": 3}, reports=[app.measured()])
    names = {streams_name(metric, naming): metric for metric in KAFKA_STREAMS}
    text = app.client().get("/metrics").text
    seen = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("kafka_")
    }
    assert seen == {name: set(metric.labels) for name, metric in names.items()}
    assert not any(name.startswith("kafka_") for name, _ in scraped(FakeApp(tmp_path)))


def test_rates_of_kafka_streams_are_over_half_a_minute(tmp_path: Path) -> None:
    """Between scrapes: the first one knows none."""
    app = FakeApp(tmp_path, admin__kafka_streams_names="jmx")
    collector = AppCollector(app.watched)

    def rate() -> float:
        families = {family.name: family for family in collector.collect()}
        return families["kafka_streams_stream_thread_metrics_process_rate"].samples[0].value

    app.runs()
    assert rate() == 0.0
    for _ in range(10):
        app.commits(records=50)
        app.clock.advance(5_000)
        found = rate()
    assert found == pytest.approx(10.0, rel=0.1)
    app.clock.advance(60_000)
    assert rate() < 5.0
    app.clock.advance(60_000)
    assert rate() == 0.0
