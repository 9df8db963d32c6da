"""The reference page on metrics, generated from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mustela.admin.catalogue import CATALOGUE, Metric
from mustela.admin.kafka_streams import KAFKA_STREAMS, streams_name
from mustela.admin.replica.shown import REPLICA_METRICS

__all__ = ["render_metrics"]

_HEAD = """# Metrics

This page is generated from `mustela.admin.catalogue`; `./dev golden-update` renews it.

The [admin server](../guides/admin.md) shows these at `/metrics`, in Prometheus' text format. They
are computed on request, from what the driver keeps anyway and from what each
task reports once at its end. Nothing is counted record by record. Counters begin at 0 with each
process. A metric without a value, such as the watermark before any record, is left out.

"""

_REPLICA = """
## Metrics of a replica

A process of [`mustela serve`](../guides/replicas.md) shows these.

"""

_STREAMS = """
## Names of Kafka Streams

With `admin.kafka_streams_names: jmx` or `micrometer` these are exported too, so that dashboards
made for Kafka Streams keep working. There is one `thread_id`, as one driver commits
for all lanes; `task_id` is `stage_lane`, or `stage_0` if there is one value for all lanes.
Rates are over the last 30 seconds or more, counted between scrapes. Times are milliseconds;
averages are since the process started.

"""


def render_metrics() -> str:
    """Return the page in Markdown.

    Example:
        >>> "| `mustela_lag_records` | gauge | `topic`, `partition` |" in render_metrics()
        True
    """
    own, replica = _of(CATALOGUE.values()), _of(REPLICA_METRICS.values())
    others = _table(
        ("`jmx`", "`micrometer`", "Labels", "Here"),
        (
            (
                f"`{streams_name(metric, 'jmx')}`",
                f"`{streams_name(metric, 'micrometer')}`",
                _listed(metric.labels),
                metric.meaning,
            )
            for metric in KAFKA_STREAMS
        ),
    )
    return _HEAD + own + _REPLICA + replica + _STREAMS + others


def _of(metrics: Iterable[Metric]) -> str:
    return _table(
        ("Metric", "Kind", "Labels", "Meaning"),
        (
            (f"`{metric.name}`", metric.kind, _listed(metric.labels), metric.meaning)
            for metric in metrics
        ),
    )


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
