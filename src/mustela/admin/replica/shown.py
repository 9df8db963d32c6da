"""What a replica shows beside rows: probes, facts and metrics."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from mustela.admin.catalogue import Metric
from mustela.admin.counted import Sample
from mustela.admin.endpoints import Answer, Endpoint, json_answer
from mustela.admin.metrics import families_of, metrics_answer
from mustela.admin.processes import Processes
from mustela.config.masking import mask_text
from mustela.plan.plan import Plan
from mustela.runtime.replica.following import Following
from mustela.runtime.replica.selected import readable
from mustela.runtime.status.watched import Watched

__all__ = ["REPLICA_METRICS", "ReplicaCollector", "ReplicaEndpoints"]

_FAULT_LENGTH: Final = 500
_ALL: Final = (
    Metric(
        "mustela_replica_info",
        "gauge",
        ("application_id", "version", "fingerprint"),
        "Always 1; its labels describe what is followed.",
    ),
    Metric("mustela_replica_ready", "gauge", (), "1 while an epoch is shown, otherwise 0."),
    Metric("mustela_replica_epoch", "gauge", (), "Number of the epoch that is shown."),
    Metric(
        "mustela_replica_epoch_age_seconds",
        "gauge",
        (),
        "Time since that epoch was committed; it grows while the application commits nothing.",
    ),
    Metric("mustela_replica_lag_epochs", "gauge", (), "Epochs that are known and not shown yet."),
    Metric(
        "mustela_replica_lag_seconds",
        "gauge",
        (),
        "Time since the last moment at which every known epoch was shown; 0 if every one is.",
    ),
    Metric(
        "mustela_replica_faults_total",
        "counter",
        ("code",),
        "Faults after which the replica tried again.",
    ),
    Metric(
        "mustela_replica_memory_bytes", "gauge", (), "Resident memory of the replica's process."
    ),
    Metric(
        "mustela_replica_cpu_seconds_total",
        "counter",
        (),
        "Processor time of the replica's process.",
    ),
)
REPLICA_METRICS: Final = {metric.name: metric for metric in _ALL}
"""Every metric of a replica, by its name."""


class ReplicaCollector:
    """A prometheus_client collector that reads a replica, and counts nothing itself.

    Args:
        watched: The application that is followed.
        following: What follows it.
    """

    def __init__(self, watched: Watched, following: Following) -> None:
        self._watched = watched
        self._following = following
        self._processes = Processes()

    def samples(self) -> Iterator[Sample]:
        """Yield every current value."""
        watched, following = self._watched, self._following
        name, fingerprint = watched.settings.application_id, watched.topology().fingerprint
        yield "mustela_replica_info", (name, version("mustela"), fingerprint), 1
        record = following.replica.record
        yield "mustela_replica_ready", (), float(record is not None)
        if record is not None:
            age_ms = watched.board.clock.now_ms() - record.time_ms
            yield "mustela_replica_epoch", (), record.epoch
            yield "mustela_replica_epoch_age_seconds", (), max(0.0, age_ms / 1000)
        yield "mustela_replica_lag_epochs", (), following.replica.behind
        yield "mustela_replica_lag_seconds", (), following.lag_s()
        for code, count in following.faults.items():
            yield "mustela_replica_faults_total", (code,), count
        usage = self._processes.look().get("driver")
        if usage is not None:
            yield "mustela_replica_memory_bytes", (), usage.memory_bytes
            yield "mustela_replica_cpu_seconds_total", (), usage.cpu_s

    def collect(self) -> Iterator[Any]:
        """Yield the metric families for prometheus_client."""
        yield from families_of(self.samples(), REPLICA_METRICS).values()


class ReplicaEndpoints:
    """The endpoints of a replica, beside those for data.

    Args:
        following: What follows the application.
        plan: What is followed of it.
    """

    def __init__(self, following: Following, plan: Plan) -> None:
        self._following = following
        self._plan = plan

    def all(self, watched: Watched) -> tuple[Endpoint, ...]:
        """Return the endpoints of the server."""
        metrics = metrics_answer(ReplicaCollector(watched, self._following))
        return (
            Endpoint(path="/health/live", group="health", respond=self._live),
            Endpoint(path="/health/ready", group="health", respond=self._ready),
            Endpoint(path="/info", group="info", respond=self._info),
            Endpoint(path="/metrics", group="metrics", respond=metrics),
        )

    def probes(self) -> tuple[Endpoint, ...]:
        """Return the endpoints of the probe port, which answer only yes or no."""
        asked = (("/health/live", self._live), ("/health/ready", self._ready))
        return tuple(
            Endpoint(
                path=path,
                group="health",
                respond=lambda watched, query, ask=ask: _terse(ask(watched, query)),
            )
            for path, ask in asked
        )

    def _live(self, _watched: Watched, _query: Mapping[str, str]) -> Answer:
        lost = self._following.lost
        if lost is None:
            return json_answer({"status": "up", "state": self._state()})
        why = f"it follows no more: {lost.code}"
        return json_answer({"status": "down", "state": self._state(), "why": why}, 503)

    def _ready(self, _watched: Watched, _query: Mapping[str, str]) -> Answer:
        record = self._following.replica.record
        facts = {"state": self._state(), "behind_epochs": self._following.replica.behind}
        if record is None or self._following.lost is not None:
            why = "no epoch is shown: nothing was committed yet, or it is still catching up"
            return json_answer({"status": facts["state"], **facts, "why": why}, 503)
        return json_answer({"status": "ready", **facts, "epoch": record.epoch})

    def _info(self, watched: Watched, _query: Mapping[str, str]) -> Answer:
        following, now_ms = self._following, watched.board.clock.now_ms()
        record, fault = following.replica.record, following.lost or following.fault
        document = {
            "application_id": watched.settings.application_id,
            "role": "replica",
            "version": version("mustela"),
            "python": platform.python_version(),
            "state": self._state(),
            "stores": sorted(readable(self._plan)),
            "incarnation": None if record is None else record.incarnation,
            "epoch": None if record is None else record.epoch,
            "epoch_ms": None if record is None else record.time_ms,
            "epoch_age_seconds": None
            if record is None
            else round(max(0.0, (now_ms - record.time_ms) / 1000), 3),
            "behind_epochs": following.replica.behind,
            "lag_seconds": round(following.lag_s(), 3),
            "fingerprint": watched.topology().fingerprint,
            "fault": None
            if fault is None
            else {"code": fault.code, "what": mask_text(fault.what)[:_FAULT_LENGTH]},
        }
        return json_answer(document)

    def _state(self) -> str:
        following = self._following
        if following.lost is not None:
            return "failed"
        return "following" if following.is_level else "catching up"


def _terse(answer: Answer) -> Answer:
    """Return an answer that says yes or no."""
    word = "up" if answer.status == 200 else "down"
    return json_answer({"status": word}, answer.status)
