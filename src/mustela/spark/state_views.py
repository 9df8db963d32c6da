"""Views of the state on the driver's host, for those who read it in the driver's process."""

from __future__ import annotations

from mustela.plan.epoch import Program
from mustela.spark.process import state_readers
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot
from mustela.state.lmdb_reader import LmdbReaders

__all__ = ["StateViews"]

_Specs = dict[tuple[int, int], EnvironmentSpec]


class StateViews:
    """Opens views of the state that workers on this host write."""

    def __init__(self) -> None:
        self._readers: LmdbReaders | None = None
        self._seen: tuple[Program, _Specs] | None = None

    def take(self, program: Program) -> None:
        """Read the state of a program from now on."""
        self._readers = self._readers or state_readers(program)
        self._seen = program, {}

    def open(self, stage: int, group: int, committed: Committed) -> Snapshot:
        """Open a view of the state of a key group; may be called from any thread."""
        assert self._seen is not None
        assert self._readers is not None
        program, specs = self._seen
        spec = specs.get((stage, group))
        if spec is None:
            spec = specs[stage, group] = program.environment(stage, group)
        return self._readers.snapshot(spec, committed)

    def close(self) -> None:
        """Close what is open."""
        if self._readers is not None:
            self._readers.close()
