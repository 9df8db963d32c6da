"""The restore workload: how much longer a start takes when local state is gone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from benchmarks.load import send
from benchmarks.measure import disk_bytes
from benchmarks.oracles import Oracle
from benchmarks.peers.base import Assignment, Event, Peer, PeerFailedError
from benchmarks.peers.registry import Contestant
from benchmarks.receiver import Receiver
from benchmarks.trial import Bench, CatchUp, catch_up
from benchmarks.workloads import Workload

_RECORD_BYTES = 16 + 100
_TIMEOUT_S = 300.0
_MEGA = 1_000_000


def restore(
    bench: Bench, workload: Workload, contestant: Contestant, todo: Assignment, oracle: Oracle
) -> tuple[CatchUp, dict[str, float]]:
    """Fill a store, then start twice: with the local state, and without it.

    Both starts are timed from the start of the process to the first output for a record that was
    sent before. The bytes of the restore are those of keys and values.

    Returns:
        The catch-up run that filled the store, and the numbers of the two starts.
    """
    filled = catch_up(bench, workload, contestant, todo, oracle)
    kept, _ = _timed_start(bench, workload, contestant, todo, number=0)
    shutil.rmtree(todo.state_dir)
    gone, peer = _timed_start(bench, workload, contestant, todo, number=1)
    numbers = {
        "restore.start_with_state_s": kept,
        "restore.start_without_state_s": gone,
        "restore.extra_start_s": gone - kept,
        "restore.state_mb": disk_bytes(todo.state_dir) / _MEGA,
    }
    seconds = restore_seconds(peer.events, gone - kept)
    if seconds is not None:
        numbers["restore.seconds"] = seconds
        numbers["restore.mb_per_s"] = todo.records * _RECORD_BYTES / _MEGA / seconds
    return filled, numbers


def _timed_start(
    bench: Bench, workload: Workload, contestant: Contestant, todo: Assignment, *, number: int
) -> tuple[float, Peer]:
    stamp = int(time.time() * 1e6)
    receiver = Receiver(topics=bench.topics, names=workload.output_topics(todo.output))
    receiver.start()
    send(bench.bootstrap, todo.input_topic, todo.program, 1, stamp, 1)
    peer = contestant.build(todo)
    peer.start()
    try:
        if not receiver.wait_for_count(1, _TIMEOUT_S):
            raise PeerFailedError(f"{peer.name}: no output after start {number}")
        first = receiver.arrivals[0][1]
    finally:
        peer.stop()
        receiver.stop()
    return first - peer.started_at, peer


def restore_seconds(events: Sequence[Event], extra_start_s: float) -> float | None:
    """How long the restore took: what the peer says of itself, else what it cost the start.

    Returns:
        Seconds; nothing where the peer says nothing and the start took no longer.
    """
    begun = [event.time for event in events if event.name == "restore_start"]
    ended = [event.time for event in events if event.name == "restore_end"]
    if begun and ended and max(ended) > min(begun):
        return max(ended) - min(begun)
    return extra_start_s if extra_start_s > 0 else None
