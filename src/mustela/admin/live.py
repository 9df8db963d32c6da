"""What moves in an application, in one document: for the page that draws it and ``mustela top``.

All counts are totals, so whoever looks twice knows the rates of the time between, however long.
"""

from __future__ import annotations

from typing import Any, Final

from mustela.admin.counted import samples_of_counter
from mustela.admin.health import readiness, restore_facts, stuck_phase
from mustela.runtime.status.snapshot import EpochTrace, SourcesView, lag_of
from mustela.runtime.status.watched import Watched

__all__ = ["live"]

_EPOCHS: Final = 60
_PARTITIONS_MAX: Final = 2_000


def live(watched: Watched) -> dict[str, Any]:
    """Return totals, sizes, lag and event time, and the last epochs."""
    board, settings = watched.board, watched.settings
    life, sources, totals = board.life, board.sources, board.totals
    ready = readiness(watched)
    return {
        "application_id": settings.application_id,
        "fingerprint": watched.topology().fingerprint,
        "now_ms": board.clock.now_ms(),
        "monotonic": board.clock.monotonic(),
        "state": life.state,
        "since_ms": life.since_ms,
        "ready": ready.is_good,
        "why": None if ready.is_good else ready.facts.get("why"),
        "stalled_seconds": round(board.stalled_s(), 3),
        "incarnation": None if sources is None else sources.incarnation,
        "epoch": None if sources is None else sources.epoch,
        "lanes": settings.lanes if sources is None else sources.lanes,
        "records": totals.records,
        "epochs": dict(totals.epochs),
        "lag": None if sources is None else sources.lag,
        "watermark_ms": None
        if sources is None or sources.watermark.value < 0
        else sources.watermark.value,
        "topics": {} if sources is None else _topics(sources),
        "partitions": [] if sources is None else _partitions(sources),
        "restore": restore_facts(watched),
        "faults": [
            {"time_ms": fault.time_ms, "code": fault.code, "what": fault.what}
            for fault in board.faults[-3:]
        ],
        **_work(watched),
        **_epochs(watched),
    }


def _work(watched: Watched) -> dict[str, Any]:
    """Return what went through each source, step and lane, and what is in each store."""
    board = watched.board
    measures, totals = board.measures, board.totals
    lanes = [
        {
            "stage": stage,
            "lane": task,
            "records": measures.tasks.get((stage, task), 0),
            "busy_seconds": round(seconds, 4),
            "step_seconds": {
                step: round(spent, 4)
                for step, spent in measures.seconds.get((stage, task), {}).items()
            },
        }
        for (stage, task), seconds in sorted(totals.busy_s.items())
    ]
    inputs = {
        name.partition(":")[2]: count
        for name, count in totals.counters.items()
        if name.startswith("records:")
    }
    return {
        "inputs": inputs,
        "steps": {
            step: {"in": measures.taken.get(step, 0), "out": measures.given.get(step, 0)}
            for step in sorted({*measures.taken, *measures.given})
        },
        "lost": _lost(watched),
        "parked": measures.waiting(),
        "tasks": lanes,
        "skew": measures.skew(max(1, _lanes(watched))),
        "stores": {
            store: {"rows": size.rows, "bytes": size.size}
            for store, size in measures.sizes().items()
        },
    }


def _lanes(watched: Watched) -> int:
    sources = watched.board.sources
    return (watched.settings.lanes or 0) if sources is None else sources.lanes


def _lost(watched: Watched) -> dict[str, dict[str, int]]:
    """Return what each step left out or failed at, by the reason."""
    found: dict[str, dict[str, int]] = {}
    for name, count in watched.board.totals.counters.items():
        metric, labels, _ = samples_of_counter(name, count)
        if metric == "mustela_dropped_records_total":
            reason, step = labels
        elif metric in ("mustela_failed_records_total", "mustela_dead_letters_total"):
            (step,), reason = labels, metric.split("_")[1]
        else:
            continue
        found.setdefault(step, {})[reason] = count
    return found


def _topics(view: SourcesView) -> dict[str, dict[str, Any]]:
    """Return lag, and how far event time is, of each source topic."""
    found: dict[str, dict[str, Any]] = {}
    for place in view.next_offsets:
        one = found.setdefault(
            place.topic, {"partitions": 0, "idle": 0, "lag": 0, "next": 0, "reached_ms": None}
        )
        one["partitions"] += 1
        one["lag"] += lag_of(view, place) or 0
        one["next"] += view.next_offsets[place]
        time = view.watermark.partitions.get(place)
        if time is None or time.max_timestamp < 0:
            continue
        one["idle"] += time.idle
        before = one["reached_ms"]
        if not time.idle and (before is None or time.max_timestamp < before):
            one["reached_ms"] = time.max_timestamp
    return found


def _partitions(view: SourcesView) -> list[dict[str, Any]]:
    """Return the lag of each partition, those with the most first."""
    lags = [(lag_of(view, place) or 0, place) for place in view.next_offsets]
    lags.sort(key=lambda pair: (-pair[0], pair[1]))
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "next": view.next_offsets[place],
            "lag": lag,
        }
        for lag, place in lags[:_PARTITIONS_MAX]
    ]


def _epochs(watched: Watched) -> dict[str, Any]:
    board, now = watched.board, watched.board.clock.monotonic()
    flight = board.in_flight
    return {
        "in_flight": None if flight is None else _epoch(flight, now),
        "stuck_phase": stuck_phase(flight, watched),
        "recent": [_epoch(trace, now) for trace in board.recent[-_EPOCHS:]],
    }


def _epoch(trace: EpochTrace, now: float) -> dict[str, Any]:
    spent: dict[str, float] = {}
    for name, seconds in trace.seconds(now):
        spent[name] = round(spent.get(name, 0.0) + seconds, 6)
    return {
        "epoch": trace.epoch,
        "attempt": trace.attempt,
        "began_ms": trace.began_ms,
        "outcome": trace.outcome or None,
        "phase": None if trace.outcome else trace.phase,
        "records": trace.records,
        "phases": spent,
    }
