"""The metrics under Kafka Streams' names, for dashboards made for Kafka Streams.

Kafka Streams' metrics have a group and a name. Prometheus' JMX exporter and Micrometer combine the
two differently; `admin.kafka_streams_names` selects one. As in Kafka Streams, rates cover the last
half minute or more, and times are in milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from mustela.admin.catalogue import Kind
from mustela.runtime.events import AppState
from mustela.runtime.status.snapshot import Histogram, lag_of
from mustela.runtime.status.watched import Watched
from mustela.topology.sink import SinkNode

__all__ = ["KAFKA_STREAMS", "StreamsMetric", "StreamsNames", "streams_name"]

_WINDOW_S: Final = 30.0
_SAMPLES_MAX: Final = 1_000


class StreamsMetric(NamedTuple):
    """A metric of Kafka Streams.

    Attributes:
        group: Its group.
        name: Its name in the group, with underscores.
        kind: Its Prometheus type.
        labels: The names of its labels.
        meaning: Its meaning in Mustela.
    """

    group: str
    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


_THREAD: Final = ("thread_id",)
_NODE: Final = ("thread_id", "task_id", "processor_node_id")
_TASK: Final = ("thread_id", "task_id")
_PLACE: Final = ("client_id", "topic", "partition")
_STORE: Final = ("thread_id", "task_id", "state_id")

KAFKA_STREAMS: Final = (
    StreamsMetric("stream-metrics", "alive_stream_threads", "gauge", ("client_id",), "lanes"),
    StreamsMetric("stream-metrics", "failed_stream_threads", "gauge", ("client_id",), "0, or 1"),
    StreamsMetric("stream-thread-metrics", "process_total", "counter", _THREAD, "source records"),
    StreamsMetric("stream-thread-metrics", "process_rate", "gauge", _THREAD, "the same a second"),
    StreamsMetric("stream-thread-metrics", "commit_total", "counter", _THREAD, "epochs"),
    StreamsMetric("stream-thread-metrics", "commit_rate", "gauge", _THREAD, "the same a second"),
    StreamsMetric(
        "stream-thread-metrics", "commit_latency_avg", "gauge", _THREAD, "transactions, in ms"
    ),
    StreamsMetric(
        "stream-thread-metrics", "process_latency_avg", "gauge", _THREAD, "jobs of epochs, in ms"
    ),
    StreamsMetric("stream-task-metrics", "process_total", "counter", _TASK, "records of a task"),
    StreamsMetric("stream-task-metrics", "process_rate", "gauge", _TASK, "the same a second"),
    StreamsMetric(
        "stream-task-metrics", "dropped_records_total", "counter", _TASK, "records left out"
    ),
    StreamsMetric(
        "stream-task-metrics", "dropped_records_rate", "gauge", _TASK, "the same a second"
    ),
    StreamsMetric(
        "stream-processor-node-metrics", "process_total", "counter", _NODE, "records of a step"
    ),
    StreamsMetric(
        "stream-processor-node-metrics", "process_rate", "gauge", _NODE, "the same a second"
    ),
    StreamsMetric(
        "stream-processor-node-metrics",
        "record_e2e_latency_avg",
        "gauge",
        _NODE,
        "age of the oldest record of a partition when its epoch was committed, in ms",
    ),
    StreamsMetric("stream-state-metrics", "estimate_num_keys", "gauge", _STORE, "rows of a store"),
    StreamsMetric(
        "stream-state-metrics", "total_sst_files_size", "gauge", _STORE, "bytes of a store"
    ),
    StreamsMetric("consumer-fetch-manager-metrics", "records_lag", "gauge", _PLACE, "lag"),
    StreamsMetric(
        "consumer-fetch-manager-metrics", "records_lag_max", "gauge", ("client_id",), "the largest"
    ),
)
"""The metrics of Kafka Streams that are provided."""

_BY_NAME: Final = {(metric.group, metric.name): metric for metric in KAFKA_STREAMS}

Value = tuple[str, str, tuple[str, ...], float]
"""A group, a name, the values of the labels, and the value."""


def streams_name(metric: StreamsMetric, naming: str) -> str:
    """Return the exported name of a metric.

    Args:
        metric: The metric.
        naming: ``jmx`` or ``micrometer``.

    Example:
        >>> [streams_name(KAFKA_STREAMS[2], naming) for naming in ("jmx", "micrometer")]
        ['kafka_streams_stream_thread_metrics_process_total', 'kafka_stream_thread_process_total']
    """
    group = metric.group.replace("-", "_")
    if naming == "micrometer":
        return f"kafka_{group.removesuffix('_metrics')}_{metric.name}"
    domain = "consumer" if group.startswith("consumer") else "streams"
    return f"kafka_{domain}_{group}_{metric.name}"


class StreamsNames:
    """Reads a board as Kafka Streams' metrics.

    Args:
        watched: The application.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._naming = watched.settings.admin.kafka_streams_names
        self._before: dict[tuple[str, ...], deque[tuple[float, float]]] = {}

    def samples(self) -> Iterator[tuple[str, StreamsMetric, tuple[str, ...], float]]:
        """Yield the name, definition, label values and value of each metric."""
        if self._naming == "none":
            return
        for group, name, labels, value in self._values():
            metric = _BY_NAME[group, name]
            yield streams_name(metric, self._naming), metric, labels, value
            faster = _BY_NAME.get((group, name.removesuffix("_total") + "_rate"))
            if faster is not None and metric.kind == "counter":
                rate = self._rate((group, name, *labels), value)
                yield streams_name(faster, self._naming), faster, labels, rate

    def _rate(self, key: tuple[str, ...], total: float) -> float:
        now = self._watched.board.clock.monotonic()
        seen = self._before.setdefault(key, deque(maxlen=_SAMPLES_MAX))
        seen.append((now, total))
        while len(seen) > 2 and now - seen[1][0] >= _WINDOW_S:
            seen.popleft()
        since, then = seen[0]
        return (total - then) / (now - since) if now > since else 0.0

    @property
    def _client(self) -> str:
        return self._watched.settings.application_id

    @property
    def _thread(self) -> str:
        return f"{self._client}-StreamThread-1"

    def _values(self) -> Iterator[Value]:
        board, thread = self._watched.board, (self._thread,)
        totals, sources = board.totals, board.sources
        failed = board.life.state == AppState.FAILED.value
        lanes = 0 if sources is None or AppState(board.life.state).ended else sources.lanes
        yield "stream-metrics", "alive_stream_threads", (self._client,), lanes
        yield "stream-metrics", "failed_stream_threads", (self._client,), float(failed)
        group = "stream-thread-metrics"
        yield group, "process_total", thread, totals.records
        yield group, "commit_total", thread, totals.epochs.get("committed", 0)
        yield group, "commit_latency_avg", thread, _mean_ms(totals.commit_s)
        running = totals.phases.get("running")
        if running is not None:
            yield group, "process_latency_avg", thread, _mean_ms(running)
        yield from self._tasks()
        yield from self._stores()
        if sources is not None:
            lags = {place: lag_of(sources, place) or 0 for place in sorted(sources.next_offsets)}
            group = "consumer-fetch-manager-metrics"
            for place, lag in lags.items():
                yield group, "records_lag", (self._client, place.topic, str(place.partition)), lag
            yield group, "records_lag_max", (self._client,), max(lags.values(), default=0)

    def _tasks(self) -> Iterator[Value]:
        measures, totals = self._watched.board.measures, self._watched.board.totals
        for (stage, task), count in measures.tasks.items():
            yield "stream-task-metrics", "process_total", (self._thread, f"{stage}_{task}"), count
        stages = {
            step.name: stage.index for stage in self._watched.plan().stages for step in stage.steps
        }
        dropped: dict[int, int] = {}
        for name, count in totals.counters.items():
            what, _, step = name.partition(":")
            if what.startswith("dropped_"):
                stage = stages.get(step, 0)
                dropped[stage] = dropped.get(stage, 0) + count
        for stage, count in dropped.items():
            labels = self._thread, f"{stage}_0"
            yield "stream-task-metrics", "dropped_records_total", labels, count
        group = "stream-processor-node-metrics"
        for step, count in measures.taken.items():
            yield group, "process_total", (self._thread, f"{stages.get(step, 0)}_0", step), count
        sinks = [node.name for node in self._watched.topology() if isinstance(node, SinkNode)]
        for sink in sinks if measures.ages.count else ():
            labels = self._thread, f"{stages.get(sink, 0)}_0", sink
            yield group, "record_e2e_latency_avg", labels, _mean_ms(measures.ages)

    def _stores(self) -> Iterator[Value]:
        stores = self._watched.plan().stores
        for store, size in self._watched.board.measures.sizes().items():
            stage = stores[store][0] if store in stores else 0
            labels = self._thread, f"{stage}_0", store
            yield "stream-state-metrics", "estimate_num_keys", labels, size.rows
            yield "stream-state-metrics", "total_sst_files_size", labels, size.size


def _mean_ms(seen: Histogram) -> float:
    return seen.total_s / seen.count * 1000 if seen.count else 0.0
