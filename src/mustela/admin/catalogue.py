"""All metrics: name, kind, labels and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["CATALOGUE", "Kind", "Metric"]

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Its name; a counter's ends in ``_total``.
        kind: Its Prometheus type.
        labels: The names of its labels.
        meaning: A sentence about it.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


_ALL: Final = (
    Metric(
        "mustela_info",
        "gauge",
        ("application_id", "version", "fingerprint"),
        "Always 1; its labels describe what is running.",
    ),
    Metric(
        "mustela_state",
        "gauge",
        ("state",),
        "1 for the state that the application is in, 0 for the others.",
    ),
    Metric(
        "mustela_state_since_seconds",
        "gauge",
        (),
        "When it entered that state, in seconds since 1970.",
    ),
    Metric(
        "mustela_health_up",
        "gauge",
        ("indicator",),
        "1 if a health indicator of the program reported well at the last probe, otherwise 0.",
    ),
    Metric(
        "mustela_health_failures_total",
        "counter",
        ("indicator",),
        "How often a health indicator was called and reported not well.",
    ),
    Metric("mustela_incarnation", "gauge", (), "Number of this run of the application."),
    Metric("mustela_epoch", "gauge", (), "Number of the last committed epoch."),
    Metric(
        "mustela_records_read_total",
        "counter",
        (),
        "Source records that were read and committed since the process started.",
    ),
    Metric(
        "mustela_input_records_total",
        "counter",
        ("input",),
        "Records that a stage took in, by their source or exchange.",
    ),
    Metric(
        "mustela_step_records_in_total",
        "counter",
        ("step",),
        "Records that a step took in.",
    ),
    Metric(
        "mustela_step_records_out_total",
        "counter",
        ("step",),
        "Records that a step passed on; for a sink, the rows that it wrote.",
    ),
    Metric(
        "mustela_dropped_records_total",
        "counter",
        ("reason", "step"),
        "Records that a step left out, by reason: `late`, `null_key`, `expired`, `duplicate`, …",
    ),
    Metric(
        "mustela_failed_records_total",
        "counter",
        ("step",),
        "Records on which a step failed, and which a handler skipped.",
    ),
    Metric("mustela_dead_letters_total", "counter", ("step",), "Records that became dead letters."),
    Metric(
        "mustela_refused_rows_total",
        "counter",
        ("topic",),
        "Output rows that the broker refused, and which a handler skipped.",
    ),
    Metric(
        "mustela_calls_total",
        "counter",
        ("outcome", "step"),
        "Asynchronous calls: `ended` and `failed`, and of those the `retried` attempts and "
        "the `repeated` calls, whose task had died.",
    ),
    Metric(
        "mustela_parked_records",
        "gauge",
        ("step",),
        "Records that wait for the result of an asynchronous call, as of the last epoch that "
        "counted them.",
    ),
    Metric(
        "mustela_user_total",
        "counter",
        ("name", "step"),
        "Counters of processors, made with `context.metrics`.",
    ),
    Metric(
        "mustela_step_events_total",
        "counter",
        ("event", "step"),
        "Other counts of steps: `updates`, `transactions`, `ticks`, `call_retries`, …",
    ),
    Metric(
        "mustela_epochs_total",
        "counter",
        ("outcome",),
        "Attempts of epochs that ended: `committed`, `given up`, `nothing to commit`.",
    ),
    Metric(
        "mustela_epoch_seconds",
        "histogram",
        (),
        "Time of committed epochs, from their choice to the end of their commit.",
    ),
    Metric(
        "mustela_commit_seconds",
        "histogram",
        (),
        "Time of their transactions, from the first row sent to the end of the commit.",
    ),
    Metric(
        "mustela_epoch_phase_seconds",
        "histogram",
        ("phase",),
        "Time of each phase of committed epochs; the guide on the admin server lists the phases.",
    ),
    Metric(
        "mustela_epoch_in_flight_seconds",
        "gauge",
        (),
        "Time since the epoch in flight began; 0 between two.",
    ),
    Metric(
        "mustela_stalled_seconds",
        "gauge",
        (),
        "Time since a running application last committed, or found nothing to do.",
    ),
    Metric(
        "mustela_task_busy_seconds_total",
        "counter",
        ("stage", "task"),
        "Time that each task worked, without waiting; after stage 0 a task is a lane.",
    ),
    Metric(
        "mustela_task_records_total",
        "counter",
        ("stage", "task"),
        "Records that each task took in; after stage 0 a task is a lane.",
    ),
    Metric(
        "mustela_lane_skew_ratio",
        "gauge",
        ("stage",),
        "Records of the busiest lane of a stage, divided by the mean of all lanes, over the "
        "last 20 epochs; 1 is even.",
    ),
    Metric(
        "mustela_home_events_total",
        "counter",
        ("what",),
        "On a cluster. Key groups whose home was lost: those that `followed` a copy to "
        "another host, and those that had none (`lost`); key groups `balanced` between hosts; "
        "those of which a lane first read what its copy lacked (`caught_up`), or everything "
        "(`restored`); lanes that ran `away` from home.",
    ),
    Metric(
        "mustela_owner_bytes_total",
        "counter",
        (),
        "On a cluster: bytes of output rows, as brokers store them, that owners of partitions "
        "wrote in place of the driver.",
    ),
    Metric(
        "mustela_standby_lag_records",
        "gauge",
        (),
        "On a cluster: how many records of changelogs the copies on second hosts lack, over all "
        "of them.",
    ),
    Metric(
        "mustela_end_to_end_seconds",
        "histogram",
        (),
        "Age of the oldest record of each partition of an epoch when the epoch was committed,"
        " by the timestamp of the record.",
    ),
    Metric(
        "mustela_lag_records",
        "gauge",
        ("topic", "partition"),
        "Offsets of a source partition that wait to be read.",
    ),
    Metric("mustela_watermark_seconds", "gauge", (), "The watermark, in seconds since 1970."),
    Metric(
        "mustela_watermark_lag_seconds", "gauge", (), "How far the watermark is behind the clock."
    ),
    Metric(
        "mustela_partition_idle",
        "gauge",
        ("topic", "partition"),
        "1 for a source partition that is idle, so that it does not hold the watermark.",
    ),
    Metric("mustela_restore_key_groups", "gauge", (), "Key groups that this start checked."),
    Metric("mustela_restore_key_groups_done", "gauge", (), "Those of them that are up to date."),
    Metric(
        "mustela_restore_records_total",
        "counter",
        ("store",),
        "Changelog records that this start read, by store.",
    ),
    Metric(
        "mustela_store_changelog_end",
        "gauge",
        ("store",),
        "Sum of the committed ends of a store's changelog, over its partitions.",
    ),
    Metric(
        "mustela_store_rows",
        "gauge",
        ("store",),
        "Rows of a store, as of the epoch before the last one that wrote to each key group.",
    ),
    Metric(
        "mustela_store_bytes",
        "gauge",
        ("store",),
        "Pages that these rows take on disk, or in memory on tmpfs.",
    ),
    Metric(
        "mustela_state_disk_bytes",
        "gauge",
        ("stage",),
        "Disk, or memory on tmpfs, that the state of a stage takes on the driver's host.",
    ),
    Metric(
        "mustela_faults_total",
        "counter",
        ("code",),
        "Faults after which the application retried, by the code of the error.",
    ),
    Metric(
        "mustela_kafka_client_total",
        "counter",
        ("client", "event"),
        "What the clients of a kind, `consumer` or `producer`, have counted: "
        "`bytes_received`, `requests_sent`, `request_timeouts`, `disconnects`, …; only with "
        "`kafka.statistics.interval.ms`.",
    ),
    Metric(
        "mustela_kafka_queue_messages",
        "gauge",
        ("client",),
        "Messages in the queue of the client of that kind that reported last.",
    ),
    Metric(
        "mustela_kafka_queue_bytes",
        "gauge",
        ("client",),
        "Bytes of these messages.",
    ),
    Metric(
        "mustela_kafka_round_trip_seconds",
        "gauge",
        ("client", "statistic"),
        "Time between its requests and the answers of its slowest broker: `avg` and `p99`.",
    ),
    Metric(
        "mustela_processes",
        "gauge",
        ("role",),
        "Processes on the driver's host: `driver`, `jvm`, `worker`, `other`.",
    ),
    Metric(
        "mustela_process_memory_bytes",
        "gauge",
        ("role",),
        "Resident memory of these processes; shared memory counts for each.",
    ),
    Metric(
        "mustela_process_cpu_seconds_total",
        "counter",
        ("role",),
        "Processor time of these processes, including those that have ended.",
    ),
)

CATALOGUE: Final = {metric.name: metric for metric in _ALL}
"""Every metric, by its name."""
