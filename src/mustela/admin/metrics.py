"""The metrics of an application, read from its board on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from mustela.admin.catalogue import CATALOGUE, Metric
from mustela.admin.counted import Sample, samples_of_counter
from mustela.admin.endpoints import Answer
from mustela.admin.kafka_streams import StreamsNames
from mustela.admin.processes import Processes
from mustela.admin.views import disk_bytes
from mustela.runtime.events import AppState
from mustela.runtime.status.snapshot import Histogram, SourcesView, lag_of
from mustela.runtime.status.watched import Watched

__all__ = ["AppCollector", "families_of", "metrics_answer"]

_CLIENTS_NOW: Final = {
    "queue_messages": ("mustela_kafka_queue_messages",),
    "queue_bytes": ("mustela_kafka_queue_bytes",),
    "round_trip_avg_s": ("mustela_kafka_round_trip_seconds", "avg"),
    "round_trip_p99_s": ("mustela_kafka_round_trip_seconds", "p99"),
}


class AppCollector:
    """A prometheus_client collector that reads the board, and counts nothing itself.

    Args:
        watched: The application.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._processes = Processes()
        self._streams = StreamsNames(watched)

    def samples(self) -> Iterator[Sample]:
        """Yield every current value."""
        yield from self._life()
        yield from self._work()
        yield from self._measures()
        yield from self._clients()
        sources = self._watched.board.sources
        if sources is not None:
            yield from _sources(sources, self._watched.board.clock.now_ms())
        yield from self._state()
        for role, usage in self._processes.look().items():
            yield "mustela_processes", (role,), usage.processes
            yield "mustela_process_memory_bytes", (role,), usage.memory_bytes
            yield "mustela_process_cpu_seconds_total", (role,), usage.cpu_s

    def _life(self) -> Iterator[Sample]:
        watched, life = self._watched, self._watched.board.life
        labels = (
            watched.settings.application_id,
            version("mustela"),
            watched.topology().fingerprint,
        )
        yield "mustela_info", labels, 1
        for state in AppState:
            yield "mustela_state", (state.value,), float(state.value == life.state)
        yield "mustela_state_since_seconds", (), life.since_ms / 1000
        yield "mustela_stalled_seconds", (), watched.board.stalled_s()
        if watched.indicators is not None:
            for name, answer in watched.indicators.last().items():
                yield "mustela_health_up", (name,), float(answer.is_up)
                yield "mustela_health_failures_total", (name,), answer.failed

    def _work(self) -> Iterator[Sample]:
        board = self._watched.board
        totals, flight = board.totals, board.in_flight
        yield "mustela_records_read_total", (), totals.records
        sums: dict[tuple[str, tuple[str, ...]], float] = {}
        for name, count in totals.counters.items():
            metric, labels, value = samples_of_counter(name, count)
            assert not isinstance(value, Histogram)
            sums[metric, labels] = sums.get((metric, labels), 0.0) + value
        for (metric, labels), value in sums.items():
            yield metric, labels, value
        for outcome, count in totals.epochs.items():
            yield "mustela_epochs_total", (outcome,), count
        yield "mustela_epoch_seconds", (), totals.epoch_s
        yield "mustela_commit_seconds", (), totals.commit_s
        for phase, seen in totals.phases.items():
            yield "mustela_epoch_phase_seconds", (phase,), seen
        began = board.clock.monotonic() if flight is None else flight.marks[0][1]
        seconds = max(0.0, board.clock.monotonic() - began)
        yield "mustela_epoch_in_flight_seconds", (), 0.0 if flight is None else seconds
        for (stage, task), busy_s in totals.busy_s.items():
            yield "mustela_task_busy_seconds_total", (str(stage), str(task)), busy_s
        for code, count in totals.faults.items():
            yield "mustela_faults_total", (code,), count

    def _measures(self) -> Iterator[Sample]:
        board = self._watched.board
        measures, sources = board.measures, board.sources
        for step, count in measures.taken.items():
            yield "mustela_step_records_in_total", (step,), count
        for step, count in measures.given.items():
            yield "mustela_step_records_out_total", (step,), count
        for (stage, task), count in measures.tasks.items():
            yield "mustela_task_records_total", (str(stage), str(task)), count
        lanes = self._watched.settings.lanes if sources is None else sources.lanes
        for stage, ratio in measures.skew(lanes or 1).items():
            yield "mustela_lane_skew_ratio", (str(stage),), ratio
        if measures.standby_lag >= 0:
            yield "mustela_standby_lag_records", (), measures.standby_lag
        for step, count in measures.waiting().items():
            yield "mustela_parked_records", (step,), count
        yield "mustela_end_to_end_seconds", (), measures.ages
        for store, size in measures.sizes().items():
            yield "mustela_store_rows", (store,), size.rows
            yield "mustela_store_bytes", (store,), size.size

    def _clients(self) -> Iterator[Sample]:
        counts: dict[tuple[str, str], float] = {}
        last: dict[str, Mapping[str, float]] = {}
        for (_, name), told in self._watched.board.measures.clients.items():
            kind = name.partition(" ")[0]
            last[kind] = told
            for event, count in told.items():
                if event not in _CLIENTS_NOW:
                    counts[kind, event] = counts.get((kind, event), 0.0) + count
        for labels, count in counts.items():
            yield "mustela_kafka_client_total", labels, count
        for kind, told in last.items():
            for what, (metric, *labels) in _CLIENTS_NOW.items():
                if what in told:
                    yield metric, (kind, *labels), told[what]

    def _state(self) -> Iterator[Sample]:
        progress = self._watched.board.restore
        if progress is not None:
            yield "mustela_restore_key_groups", (), progress.groups
            yield "mustela_restore_key_groups_done", (), progress.done
            for store, count in progress.records.items():
                yield "mustela_restore_records_total", (store,), count
        for stage, size in disk_bytes(self._watched).items():
            yield "mustela_state_disk_bytes", (str(stage),), size

    def collect(self) -> Iterator[Any]:
        """Yield the metric families for prometheus_client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families = families_of(self.samples(), CATALOGUE)
        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        for name, of, labels, value in self._streams.samples():
            if name not in families:
                families[name] = kinds[of.kind](name, f"Here: {of.meaning}.", labels=of.labels)
            families[name].add_metric(labels, float(value))
        yield from families.values()


def families_of(samples: Iterable[Sample], catalogue: Mapping[str, Metric]) -> dict[str, Any]:
    """Return the metric families of samples, by name, for prometheus_client.

    Args:
        samples: The values.
        catalogue: Kind, labels and meaning of each.
    """
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    kinds = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    families: dict[str, Any] = {}
    for name, labels, value in samples:
        metric = catalogue[name]
        if name not in families:
            families[name] = kinds[metric.kind](name, metric.meaning, labels=metric.labels)
        if isinstance(value, Histogram):
            buckets = [
                ("+Inf" if bound == float("inf") else repr(bound), float(count))
                for bound, count in value.up_to()
            ]
            families[name].add_metric(labels, buckets, value.total_s)
        else:
            families[name].add_metric(labels, float(value))
    return families


def _sources(view: SourcesView, now_ms: int) -> Iterator[Sample]:
    yield "mustela_incarnation", (), view.incarnation
    yield "mustela_epoch", (), view.epoch
    for place in sorted(view.next_offsets):
        lag = lag_of(view, place)
        if lag is not None:
            yield "mustela_lag_records", (place.topic, str(place.partition)), lag
    for place, time in sorted(view.watermark.partitions.items()):
        yield "mustela_partition_idle", (place.topic, str(place.partition)), float(time.idle)
    if view.watermark.value >= 0:
        yield "mustela_watermark_seconds", (), view.watermark.value / 1000
        yield "mustela_watermark_lag_seconds", (), (now_ms - view.watermark.value) / 1000
    for store, ends in view.changelog_ends.items():
        yield "mustela_store_changelog_end", (store,), sum(ends)


def metrics_answer(collector: Any) -> Any:
    """Return the handler of ``/metrics``.

    Args:
        collector: A collector of prometheus_client.
    """

    def respond(_watched: Watched, _query: Mapping[str, str]) -> Answer:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        return Answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)

    return respond
