"""Machines: their disks, which outlive processes, and what a power loss leaves of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from mustela.state.codec import Meta
from mustela.state.directories import environment_path
from mustela.state.faults import gone
from mustela.state.index import NOTHING_KNOWN, KnownRows
from mustela.state.interfaces import (
    Changes,
    Committed,
    Condition,
    EnvironmentSpec,
    StoreSize,
    Token,
)
from mustela.state.lmdb_files import refuse
from mustela.state.memory import MemoryEnvironment, MemorySnapshot
from mustela.state.protocol import Standing, compare, not_ready

__all__ = ["DiskEnvironment", "Machine"]


class DiskEnvironment(MemoryEnvironment):
    """An environment whose files outlive processes.

    It is in memory, because files take ten times as long. Base, pendings and the rules for them are
    those of `MemoryEnvironment`; whose it is, boots and clean stops are for `Meta` to judge, as in
    `LmdbEnvironment`.

    Args:
        spec: What it holds.
        machine: Whose disk it is on.
        path: Where.
    """

    def __init__(self, spec: EnvironmentSpec, machine: Machine, path: str) -> None:
        super().__init__(spec)
        self._machine = machine
        self._meta: Meta | None = None
        self.is_gone = False
        self.path = environment_path(machine.root, spec)
        self._at = path

    def asked(self, spec: EnvironmentSpec) -> DiskEnvironment:
        """Return the environment for a program that may ask for something else."""
        self._spec = spec
        if self._meta is None:
            self.destroy()
        return self

    def condition(self, committed: Committed) -> Condition:
        """Compare what is here with what is committed."""
        if self._meta is None:
            return compare(Standing(), committed, has_pending=False, spec=self._spec)
        refused = self._meta.judged(self._spec, self._machine.boot)
        return super().condition(committed) if refused is None else refused

    def seen(self, spec: EnvironmentSpec, committed: Committed) -> MemorySnapshot:
        """Open a view for a reader, which changes nothing, whatever its program asks for."""
        refused = None if self._meta is None else self._meta.judged(spec, self._machine.boot)
        if refused is not None or self.is_gone:
            raise not_ready(refused or Condition.EMPTY, committed, str(self.path))
        known, self._spec = self._spec, spec
        try:
            return super().snapshot(committed)
        finally:
            self._spec = known

    def _writes(self) -> None:
        self._machine.at("disk")
        if self.is_gone:
            raise gone(self.path)
        if self._meta is None:
            self._meta = Meta.fresh(self._spec, self._machine.boot)
        refuse(self._meta.judged(self._spec, self._machine.boot), self.path)
        self._meta.use(self._machine.boot)

    def write_pending(
        self,
        token: Token,
        committed: Committed,
        changes: Changes,
        known: Mapping[str, KnownRows] = NOTHING_KNOWN,
    ) -> None:
        """Store an epoch's changes; a kill comes before it or after it."""
        self._writes()
        super().write_pending(token, committed, changes, known)
        self._machine.at("disk")

    def fold(self, committed: Committed) -> None:
        """Fold the committed pending into the base."""
        if self._meta is None and committed.token is None:
            return
        self._writes()
        super().fold(committed)

    def restore(self, *args: Any, **kwargs: Any) -> None:
        """Apply changelog rows in log order; see `MemoryEnvironment.restore`."""
        self._writes()
        super().restore(*args, **kwargs)

    def finish_restore(self, committed: Committed) -> None:
        """Declare the base to be the committed state."""
        self._writes()
        super().finish_restore(committed)

    def close(self, *, clean: bool) -> None:
        """Let go of it; ``clean`` says on disk that all is written."""
        super().close(clean=clean)
        if clean and self._meta is not None:
            self._meta.let_go(self._machine.boot)

    def sizes(self) -> dict[str, StoreSize]:
        """Nothing is measured here: nothing that is decided hangs on the size of files."""
        return {}

    def destroy(self) -> None:
        """Delete all state."""
        super().destroy()
        self._meta = None

    def tear(self, random: Random) -> None:
        """Lose power: what was not written to the disk is there in part."""
        super().close(clean=False)
        if self._meta is None or self._meta.clean:
            return
        self._own_base()
        for table in self._base.values():
            for key in list(table.rows):
                if random.random() < 0.5:
                    table.apply([(key, None)])
        self._pendings = {
            token: rows for token, rows in self._pendings.items() if random.random() < 0.5
        }


class Machine:
    """A machine.

    Args:
        number: Which one.
        random: Says what a power loss leaves.

    Attributes:
        skew_ms: How far its wall clock is ahead of the cluster's.
        environments: What is on its disk, by path.
        locks: Who holds the locks of its kernel, by path.
    """

    def __init__(self, number: int, random: Random) -> None:
        self.number = number
        self.root = Path("/simulated")
        self.skew_ms = 0
        self.boots = 1
        self.environments: dict[str, DiskEnvironment] = {}
        self.locks: dict[str, Any] = {}
        self.at = _nothing
        self._random = random

    @property
    def boot(self) -> str:
        """Names the running boot."""
        return f"{self.number}/{self.boots}"

    def environment(self, spec: EnvironmentSpec) -> DiskEnvironment:
        """Return an environment of the disk."""
        path = f"{spec.application_id}/{spec.stage}/{spec.group}"
        found = self.environments.get(path)
        if found is None:
            found = self.environments[path] = DiskEnvironment(spec, self, path)
            return found
        return found if found.spec is spec else found.asked(spec)

    def seen(self, spec: EnvironmentSpec, committed: Committed) -> MemorySnapshot:
        """Open a view for a reader, as `LmdbReaders` does."""
        found = self.environments.get(f"{spec.application_id}/{spec.stage}/{spec.group}")
        if found is not None:
            return found.seen(spec, committed)
        if committed.token is None:
            return MemoryEnvironment(spec).snapshot(committed)
        raise not_ready(Condition.EMPTY, committed, "a disk without it")

    def remove_unclaimed(self, application_id: str, claimed: set[str]) -> None:
        """Delete what no stage of an application uses."""
        for path in list(self.environments):
            application, stage, _ = path.split("/")
            if application == application_id and stage not in claimed:
                self.environments.pop(path).destroy()

    def close_views(self) -> None:
        """End the snapshots of processes that are gone."""
        for environment in self.environments.values():
            for view in list(environment._views):
                view.close()

    def lose_power(self) -> None:
        """Crash and start again."""
        self.boots += 1
        for environment in self.environments.values():
            environment.tear(self._random)

    def lose_state(self) -> None:
        """Lose all environments: who has one open finds that it is gone when it writes."""
        for environment in self.environments.values():
            environment.is_gone = True
        self.environments.clear()

    def lose_disk(self) -> None:
        """Come back with an empty disk."""
        self.boots += 1
        self.environments.clear()


def _nothing(what: str) -> None:
    """Nothing happens."""
