"""The contents of each endpoint, as plain values from the board of an application."""

from __future__ import annotations

import platform
import sys
import threading
import traceback
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mustela.admin.health import restore_facts, stuck_phase
from mustela.config.units import show_duration
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.runtime.status.snapshot import EpochTrace, SourcesView, lag_of
from mustela.runtime.status.watched import Watched
from mustela.state.directories import memory_directory
from mustela.topology.facts import node_facts

__all__ = [
    "barriers",
    "config",
    "disk_bytes",
    "info",
    "offsets",
    "state",
    "threads",
    "topology",
    "watermarks",
]

_FRAMES_MAX = 50


def info(watched: Watched) -> dict[str, Any]:
    """Return what is running, since when, and recent faults."""
    board, settings, sources = watched.board, watched.settings, watched.board.sources
    life = board.life
    return {
        "application_id": settings.application_id,
        "version": version("mustela"),
        "python": platform.python_version(),
        "state": life.state,
        "since_ms": life.since_ms,
        "history": [{"state": name, "since_ms": at} for name, at in life.history],
        "incarnation": None if sources is None else sources.incarnation,
        "epoch": None if sources is None else sources.epoch,
        "lag": None if sources is None else sources.lag,
        "watermark_ms": _watermark(sources),
        "stalled_seconds": round(watched.board.stalled_s(), 3),
        "processing_guarantee": settings.processing_guarantee,
        "key_groups": settings.key_groups if sources is None else sources.key_groups,
        "lanes": settings.lanes if sources is None else sources.lanes,
        "fingerprint": watched.topology().fingerprint,
        "faults": [
            {"time_ms": fault.time_ms, "code": fault.code, "what": fault.what}
            for fault in board.faults
        ],
    }


def config(watched: Watched) -> dict[str, Any]:
    """Return every setting with its source; secrets are masked."""
    settings = watched.settings
    return {
        key: {"value": _plain(value), "source": settings.source_of(key)}
        for key, value in settings.masked().items()
    }


def topology(watched: Watched) -> dict[str, Any]:
    """Return the nodes of the logical topology, and the stages of the plan."""
    graph, plan = watched.topology(), watched.plan()
    return {
        "application_id": watched.settings.application_id,
        "fingerprint": graph.fingerprint,
        "nodes": [node_facts(node) for node in graph],
        "stages": [
            {
                "stage": stage.index,
                "sources": [source.name for source in stage.sources],
                "inputs": list(stage.inputs),
                "steps": [step.name for step in stage.steps],
                "stores": [store.name for store in stage.stores],
            }
            for stage in plan.stages
        ],
    }


def state(watched: Watched) -> dict[str, Any]:
    """Return the stores, with their stages, changelog ends and the progress of a restore."""
    sources, plan, settings = watched.board.sources, watched.plan(), watched.settings
    ends = dict[str, list[int]]() if sources is None else sources.changelog_ends
    on_disk = disk_bytes(watched)
    stores = [
        {
            "store": name,
            "kind": spec.kind,
            "stage": stage,
            "logged": spec.logged,
            "changelog": changelog_topic(settings.application_id, spec.log_name)
            if spec.logged
            else None,
            "changelog_end": sum(ends[name]) if name in ends else None,
        }
        for name, (stage, spec) in sorted(plan.stores.items())
    ]
    return {
        "stores": stores,
        "stages": [
            {"stage": stage.index, "bytes": on_disk.get(stage.index)}
            for stage in plan.stages
            if stage.stores
        ],
        "global_tables": [{"store": t.store.name, "topic": t.topic} for t in plan.global_tables],
        "restore": restore_facts(watched),
    }


def disk_bytes(watched: Watched) -> dict[int, int]:
    """Return the disk usage of each stage's state on this host, in bytes."""
    settings = watched.settings
    roots = [settings.state_dir / settings.application_id]
    if settings.state.backend == "memory":
        here = memory_directory(settings.application_id)
        roots.append(here / settings.application_id)
    found: dict[int, int] = {}
    for stage in watched.plan().stages:
        places = [root / stage.identity for root in roots if stage.stores]
        sizes = [_size_of(place) for place in places if place.is_dir()]
        if sizes:
            found[stage.index] = sum(sizes)
    return found


def _size_of(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:  # it was deleted meanwhile
            continue
    return total


def offsets(watched: Watched) -> dict[str, Any]:
    """Return, for each source partition, its next offset, end and number of waiting offsets."""
    view = watched.board.sources
    if view is None:
        return {"seen_ms": None, "epoch": None, "lag": None, "partitions": []}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "next": view.next_offsets[place],
            "end": view.ends.get(place),
            "lag": lag_of(view, place),
        }
        for place in sorted(view.next_offsets)
    ]
    return {"seen_ms": view.seen_ms, "epoch": view.epoch, "lag": view.lag, "partitions": rows}


def watermarks(watched: Watched) -> dict[str, Any]:
    """Return the event time of each partition, and which of them hold the watermark."""
    view = watched.board.sources
    if view is None:
        return {"seen_ms": None, "watermark_ms": None, "held_by": [], "partitions": []}
    reached = {place: _reached(view, place) for place in sorted(view.watermark.partitions)}
    holders = _holders(view, reached)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "max_timestamp_ms": _known(view.watermark.partitions[place].max_timestamp),
            "reached_ms": at,
            "idle": view.watermark.partitions[place].idle,
            "takes_part": _takes_part(view, place),
            "waits_for_records": place in view.held,
            "holds": place in holders,
        }
        for place, at in reached.items()
    ]
    now_ms, watermark = watched.board.clock.now_ms(), _watermark(view)
    return {
        "seen_ms": view.seen_ms,
        "watermark_ms": watermark,
        "behind_clock_ms": None if watermark is None else now_ms - watermark,
        "held_by": [{"topic": place.topic, "partition": place.partition} for place in holders],
        "partitions": rows,
    }


def _takes_part(view: SourcesView, place: TopicPartition) -> bool:
    return place.topic in view.topics and view.watermark.options_of(place.topic).takes_part


def _reached(view: SourcesView, place: TopicPartition) -> int | None:
    """Return the time that a partition has reached; None for none, or if a user's rule fails."""
    latest = view.watermark.partitions[place].max_timestamp
    if latest < 0:
        return None
    try:
        return next(iter(view.watermark.options_of(place.topic).reached([latest])), None)
    except Exception:  # noqa: BLE001 - a function of the user's; the epoch says what it raised
        return None


def _holders(view: SourcesView, reached: dict[TopicPartition, int | None]) -> list[TopicPartition]:
    """Return the partitions that the watermark waits for: those that are furthest behind."""
    active = {
        place: at
        for place, at in reached.items()
        if _takes_part(view, place) and not view.watermark.partitions[place].idle
    }
    without = [place for place, at in active.items() if at is None]
    if without:
        return without
    times = [at for at in active.values() if at is not None]
    return [place for place, at in active.items() if at == min(times)]


def _watermark(view: SourcesView | None) -> int | None:
    return None if view is None else _known(view.watermark.value)


def _known(milliseconds: int) -> int | None:
    return None if milliseconds < 0 else milliseconds


def barriers(watched: Watched) -> dict[str, Any]:
    """Return the epoch in flight and the last ones, with the time of each phase."""
    board, now = watched.board, watched.board.clock.monotonic()
    flight = board.in_flight
    return {
        "in_flight": None if flight is None else _trace(flight, now),
        "stuck_phase": stuck_phase(flight, watched),
        "stalled_seconds": round(watched.board.stalled_s(), 3),
        "recent": [_trace(trace, now) for trace in reversed(board.recent)],
    }


def _trace(trace: EpochTrace, now: float) -> dict[str, Any]:
    ended = now if trace.ended is None else trace.ended
    return {
        "incarnation": trace.incarnation,
        "epoch": trace.epoch,
        "attempt": trace.attempt,
        "began_ms": trace.began_ms,
        "phase": None if trace.outcome else trace.phase,
        "outcome": trace.outcome or None,
        "records": trace.records,
        "seconds": round(max(0.0, ended - trace.marks[0][1]), 6),
        "phases": [
            {"phase": name, "seconds": round(seconds, 6)} for name, seconds in trace.seconds(now)
        ],
    }


def threads(watched: Watched, *, stacks: bool) -> dict[str, Any]:
    """Return what each worker is doing, and the stacks of this process's threads.

    Args:
        watched: The application.
        stacks: Whether to ask workers for their Python stacks.
    """
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - there is no other way
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    workers = [
        {
            "pid": view.pid,
            "activity": view.activity,
            "stage": view.stage if view.stage >= 0 else None,
            "lane": view.lane if view.lane >= 0 else None,
            "step": view.step or None,
            "seconds": round(view.seconds, 3),
            "record": view.record or None,
            "stack": view.stack.splitlines() or None,
        }
        for view in watched.workers(stacks)
    ]
    driver = [
        {
            "thread": names.get(ident, str(ident)),
            "stack": [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_stack(found)[-_FRAMES_MAX:]
            ],
        }
        for ident, found in sorted(frames.items())
    ]
    return {
        "workers": workers,
        "driver": driver,
        "hosts_not_asked": [*watched.hosts_elsewhere()],
    }


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return show_duration(value)
    return str(value) if isinstance(value, Path) else value
