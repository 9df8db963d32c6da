"""The copies of global tables that the readers of one process keep.

They are not those of the workers, which are read ahead of what is committed: each of these is read
up to exactly what a committed epoch had read, when somebody asks.
"""

from __future__ import annotations

import os
import threading

from mustela.clock import SystemClock
from mustela.plan.epoch import GlobalMark, Program, global_identity
from mustela.spark.global_tables import GlobalCopy
from mustela.spark.process import Process
from mustela.state.faults import StateGoneError, StateNotReadyError
from mustela.state.interfaces import Condition, Snapshot
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalReading"]


class GlobalReading:
    """Opens copies of global tables; it can be used from any thread.

    Args:
        program: The application, with a directory for these copies alone.
    """

    def __init__(self, program: Program) -> None:
        self._process = Process(os.getpid(), program)
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self._closed = False

    def open(self, table: GlobalTableNode, mark: GlobalMark, epoch: int) -> Snapshot:
        """Open a table as of exactly the offsets of its topic that a mark says.

        Args:
            table: The table.
            mark: The offsets.
            epoch: The committed epoch that had read the topic up to there.

        Raises:
            StateNotReadyError: If a later epoch was opened before.
            StateGoneError: If the copies were closed; another reading may have them open by now.
            EnvironmentFault: If the topic cannot be read.
        """
        with self._lock:
            if self._closed:
                msg = f"the readers' copy of global table {table.name!r} was closed"
                raise StateGoneError(msg, fix="ask again")
            copy, identity = GlobalCopy(self._process, table, mark), global_identity(table, mark)
            now_ms = self._clock.now_ms()
            try:
                found = copy.exactly(now_ms=now_ms)
            except StateNotReadyError as error:
                is_ahead = error.fields.get("condition") is Condition.AHEAD
                if not is_ahead or epoch < self._newest.get(identity, -1):
                    raise
                copy.forget()  # of an earlier process, which read further than what is committed
                found = copy.exactly(now_ms=now_ms)
            self._newest[identity] = max(epoch, self._newest.get(identity, -1))
            return found

    def close(self) -> None:
        """Close the copies; views of them end."""
        with self._lock:
            self._closed = True
            self._process.close()
