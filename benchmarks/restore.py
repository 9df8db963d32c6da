"""The restore workload: how much longer a start takes when local state is gone."""

from __future__ import annotations

import shutil
import time

from benchmarks.load import send
from benchmarks.measure import disk_bytes
from benchmarks.oracles import Oracle
from benchmarks.peers.base import Assignment, Peer, PeerFailedError
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
    sent before. The restore took the difference; its bytes are those of keys and values.

    Returns:
        The catch-up run that filled the store, and the numbers of the two starts.
    """
    filled = catch_up(bench, workload, contestant, todo, oracle)
    kept, _ = _timed_start(bench, workload, contestant, todo, number=0)
    shutil.rmtree(todo.state_dir)
    gone, peer = _timed_start(bench, workload, contestant, todo, number=1)
    seconds = max(gone - kept, 1e-3)
    numbers = {
        "restore.start_with_state_s": kept,
        "restore.start_without_state_s": gone,
        "restore.seconds": seconds,
        "restore.mb_per_s": todo.records * _RECORD_BYTES / _MEGA / seconds,
        "restore.state_mb": disk_bytes(todo.state_dir) / _MEGA,
    }
    begun, ended = _restore_events(peer)
    if begun is not None and ended is not None:
        numbers["restore.own_s"] = ended - begun
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


def _restore_events(peer: Peer) -> tuple[float | None, float | None]:
    begun = [event.time for event in peer.events if event.name == "restore_start"]
    ended = [event.time for event in peer.events if event.name == "restore_end"]
    return (min(begun) if begun else None, max(ended) if ended else None)
