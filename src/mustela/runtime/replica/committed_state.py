"""What an application has committed, for a reader that comes once: from its directory, or its logs.

A directory is only read: none of its files is written or locked, whether the application runs or
not. Where it does not hold the last epoch, changelogs are read into a replica's directory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Final, Literal

from mustela.config.settings import Settings
from mustela.plan.epoch import GroupMark, Program
from mustela.plan.plan import Plan, Stage
from mustela.processes import boot_id
from mustela.queries.errors import StateUnavailableError
from mustela.queries.rows import EditionViews
from mustela.queries.source import Edition, StateSource, key_groups_of
from mustela.runtime.record.group_marks import marks_of
from mustela.runtime.record.store_names import with_store_names
from mustela.runtime.replica.edition import Held, ReplicaEdition
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.runtime.replica.places import replica_place
from mustela.runtime.replica.program import program_of
from mustela.runtime.replica.replica import Replica, Sources
from mustela.state.faults import StateDamagedError, StateGoneError, StateNotReadyError
from mustela.state.interfaces import Snapshot
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.lmdb_reader import LmdbReaders

__all__ = ["NothingCommittedError", "StateElsewhereThanHereError", "committed_state"]

_WAIT_S: Final = 0.1
_LOOKS: Final = 5
_MOVED = (StateNotReadyError, StateGoneError, StateDamagedError)


class NothingCommittedError(StateUnavailableError):
    """The application has committed nothing on these brokers."""

    code = "STATE_NOTHING_COMMITTED"
    retryable = False


class StateElsewhereThanHereError(StateUnavailableError):
    """The directory of state on this host does not hold the last epoch."""

    code = "STATE_NOT_HERE"
    retryable = False


@contextmanager
def committed_state(
    settings: Settings,
    plan: Plan,
    *,
    examine: Callable[[], None],
    say: Callable[[str], object],
    only: Literal["directory", "changelogs"] | None = None,
) -> Generator[StateSource]:
    """Give the newest committed epoch of an application, whether it runs or not.

    Args:
        settings: Name the application, the brokers and the directory of state.
        plan: The program.
        examine: Checks that the program fits what was committed.
        say: Is told where the state is read from.
        only: Where it must be read from.

    Raises:
        NothingCommittedError: If nothing was committed.
        StateElsewhereThanHereError: If it must be read from the directory, which does not hold it.
        MustelaError: If the program does not fit, or the brokers do not answer.
    """
    with ExitStack() as stack:
        sources = Sources.of(settings)
        stack.callback(sources.admin.close)
        stack.callback(sources.tail.close)
        if not sources.feed.new(0.0):
            raise _nothing(settings)
        examine()
        found = None if only == "changelogs" else _here(stack, settings, plan, sources)
        if found is not None:
            say(f"as of epoch {found.epoch}, from {settings.state_dir}")
            yield _Pinned(found)
            return
        if only == "directory":
            msg = f"{settings.state_dir} does not hold the last epoch of {settings.application_id}"
            raise StateElsewhereThanHereError(
                msg,
                why="it ran on another host since, or was not stopped cleanly before a reboot",
                fix="read the changelogs: --source changelogs",
            )
        yield stack.enter_context(_of_changelogs(settings, plan, say))


def _here(
    stack: ExitStack, settings: Settings, plan: Plan, sources: Sources
) -> ReplicaEdition | None:
    """Return the last epoch as the directory of state holds it; None if it does not."""
    readers = LmdbReaders(
        settings.state_dir,
        boot=boot_id() or "",
        options=LmdbOptions(map_bytes=settings.state.map_size),
    )
    stack.callback(readers.close)
    tables = GlobalCopies(lambda: settings)
    stack.callback(tables.close)
    for _ in range(_LOOKS):  # an application that runs here may move on meanwhile
        sources.feed.close()
        record = with_store_names(sources.feed.new(0.0)[-1], plan)
        program = program_of(settings, plan, record, sources.admin, settings.state_dir)
        held = Held(
            copies=_Directory(program, readers), lock=threading.Lock(), unlogged=True, tables=tables
        )
        edition = ReplicaEdition(record, marks_of(plan, record), plan, held)
        try:
            with closing(EditionViews(edition)) as views:
                views.open_all(key_groups_of(edition.stores.values()))
        except _MOVED:
            continue
        return edition
    return None


@contextmanager
def _of_changelogs(
    settings: Settings, plan: Plan, say: Callable[[str], object]
) -> Generator[StateSource]:
    with replica_place(settings.state_dir, settings.application_id, None) as place:
        say(f"reads the changelogs into {place}")
        own = settings.model_copy(update={"state_dir": place})
        replica = Replica(own, plan, examine=lambda: None)
        try:
            while replica.record is None:
                replica.step(_WAIT_S)
            say(f"as of epoch {replica.record.epoch}, from the changelogs")
            yield replica
        finally:
            replica.close(clean=True)


class _Directory:
    """The directory of an application, which is only read.

    Args:
        program: The application, as its last record describes it.
        readers: Open its files.
    """

    def __init__(self, program: Program, readers: LmdbReaders) -> None:
        self._program = program
        self._readers = readers

    def snapshot(self, stage: Stage, group: int, mark: GroupMark) -> Snapshot:
        """Open a view of a key group as of a mark."""
        place = self._program.environment(stage.index, group)
        return self._readers.snapshot(place, mark.committed(stage.logged))


class _Pinned:
    """Gives out one epoch, whatever is committed later."""

    def __init__(self, edition: Edition) -> None:
        self._edition = edition

    def newest(self) -> Edition:
        """Return the epoch."""
        return self._edition

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Return whether it meets a condition; another one does not come."""
        del seconds
        return holds(self._edition)


def _nothing(settings: Settings) -> NothingCommittedError:
    msg = f"{settings.application_id} has committed nothing on {settings.bootstrap_servers}"
    return NothingCommittedError(
        msg,
        why="it has never run there, or under another application_id",
        fix="check both: mustela config show",
    )
