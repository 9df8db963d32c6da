"""Known bugs, planted to show that the harness would find them.

A child application gets one by its environment: see `environment_of`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mustela.compiled import SWITCH
from tests.faults.process import ROOT
from tests.faults.reads.bugs import READ_PLANTS


class Bug(NamedTuple):
    """A bug, and the life in which it shows.

    Attributes:
        kind: The application.
        points: Where that is killed; ``lose`` deletes local state instead.
        environment: Settings that make the bug, where it needs no code.
    """

    kind: str
    points: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


BUGS: dict[str, Bug] = {
    "offsets-before-rows": Bug("stateless", ("half-produced:3",)),
    "rows-outside-the-transaction": Bug(
        "word_count",
        ("transaction-begun:3",),
        (("MUSTELA__PROCESSING_GUARANTEE", "at_least_once"),),
    ),
    "state-before-commit": Bug("word_count", ("transaction-begun:3",)),
    "dead-letters-lost": Bug("stateless", ()),
    "changelog-ends-forgotten": Bug("word_count", ("committed:4", "lose")),
    "watermark-forgotten": Bug("word_count", ("committed:4",)),
    "met-and-alone": Bug("stream_joins", ()),
    "rows-of-now-for-versions": Bug("versioned", ()),
    "deletions-not-restored": Bug("table_joins", ("committed:4", "lose")),
    "late-by-the-epoch": Bug("tumbling", ()),
    "held-for-ever": Bug("suppressed", ()),
    "sessions-told-early": Bug("sessions", ()),
    "sinks-in-turn": Bug("branches", ()),
    "leavers-forgotten": Bug("rekeyed", ()),
}
"""By name, every bug; the first points are the fewest that show it."""
HOSTS_BUGS = ("copies-not-read-on",)
"""Those that show on several hosts alone."""


def environment_of(name: str) -> dict[str, str]:
    """Return the variables that plant a bug in a child and in all its processes."""
    return {"FAULTS_BUG": name, SWITCH: "0", **planting(), **dict(BUGS[name].environment)}


def planting() -> dict[str, str]:
    """Return the variables that have what is planted loaded into every Python process."""
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    planted = str(Path(__file__).parent / "planted")
    return {"PYTHONPATH": os.pathsep.join([planted, str(ROOT), *before])}


def plant(name: str) -> None:
    """Plant a bug in this process."""
    bug = _PLANTS.get(name)
    if bug is not None:
        bug()
    elif name in READ_PLANTS:
        READ_PLANTS[name](_replace)


_REPLACED: list[tuple[Any, str, object]] = []


def _replace(owner: Any, name: str, value: object) -> None:
    file = str(sys.modules[getattr(owner, "__module__", owner.__name__)].__file__)
    assert file.endswith(".py"), f"compiled code does not see what is planted: {SWITCH}=0"
    _REPLACED.append((owner, name, vars(owner)[name]))
    setattr(owner, name, value)


@contextmanager
def planted(name: str) -> Generator[None]:
    """Plant a bug in this process for a while."""
    plant(name)
    try:
        yield
    finally:
        while _REPLACED:
            setattr(*_REPLACED.pop())


class _RowsLast:
    """A sink that sends rows in a transaction of their own, after the one with the offsets."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._rows: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def produce_columns(self, *columns: Any, **options: Any) -> None:
        self._rows.append((columns, options))

    def commit(self) -> None:
        self._sink.commit()
        self._sink.begin()
        for columns, options in self._rows:
            self._sink.produce_columns(*columns, **options)
        self._sink.commit()


def _offsets_before_rows() -> None:
    from mustela.runtime.commit.committer import Committer

    attempt: Any = Committer._attempt  # pyright: ignore[reportPrivateUsage]

    def reversed_attempt(self: Any, *arguments: Any) -> Any:
        sink = self._sink
        self._sink = _RowsLast(sink)
        try:
            return attempt(self, *arguments)
        finally:
            self._sink = sink

    _replace(Committer, "_attempt", reversed_attempt)


def _state_before_commit() -> None:
    from mustela.state.interfaces import Committed
    from mustela.state.lmdb_environment import LmdbEnvironment

    write: Any = LmdbEnvironment.write_pending

    def write_and_fold(self: Any, token: Any, committed: Any, changes: Any) -> None:
        write(self, token, committed, changes)
        ends = committed.changelog_ends
        self.fold(Committed(token=token, changelog_ends=ends, time_ms=committed.time_ms))

    _replace(LmdbEnvironment, "write_pending", write_and_fold)


def _dead_letters_lost() -> None:
    from mustela.runtime.commit.committer import Committer

    attempt: Any = Committer._attempt  # pyright: ignore[reportPrivateUsage]

    def without_letters(self: Any, output: Any, *arguments: Any) -> Any:
        output.dead_letters = ()
        return attempt(self, output, *arguments)

    _replace(Committer, "_attempt", without_letters)


def _changelog_ends_forgotten() -> None:
    from mustela.connectors.kafka.transaction import TransactionalSink

    flush: Any = TransactionalSink.flush

    def flush_and_forget(self: Any, timeout: float | None = None) -> dict[Any, int]:
        flush(self, timeout)
        return {}

    _replace(TransactionalSink, "flush", flush_and_forget)


def _watermark_forgotten() -> None:
    import msgspec

    from mustela.runtime.commit.committed import CommittedState

    build: Any = CommittedState.from_record.__func__  # type: ignore[attr-defined]

    def forgetful(cls: Any, record: Any, *arguments: Any, **options: Any) -> Any:
        parts = [msgspec.structs.replace(p, max_timestamp=-1) for p in record.partitions]
        record = msgspec.structs.replace(record, watermark=-1, partitions=parts)
        return build(cls, record, *arguments, **options)

    _replace(CommittedState, "from_record", classmethod(forgetful))


def _met_and_alone() -> None:
    from mustela.kernel.joins.stream_join_waiting import WaitingRecords

    discard: Any = WaitingRecords.discard

    def only_fresh(self: Any, *place: Any, stored: bool) -> None:
        del stored
        discard(self, *place, stored=False)

    _replace(WaitingRecords, "discard", only_fresh)


def _rows_of_now_for_versions() -> None:
    from mustela.kernel.tables.versioned_lookup import VersionedLookup

    answer: Any = VersionedLookup.answer

    def newest(self: Any, places: Any, keys: Any, times: Any, *changes: Any) -> Any:
        return answer(self, places, keys, [1 << 50 for _ in times], *changes)

    _replace(VersionedLookup, "answer", newest)


def _deletions_not_restored() -> None:
    from mustela.state.lmdb_environment import LmdbEnvironment
    from mustela.state.memory import MemoryEnvironment

    for owner in (LmdbEnvironment, MemoryEnvironment):
        restore: Any = owner.restore

        def without_deletions(
            self: Any,
            store: str,
            rows: Iterable[tuple[bytes, bytes | None]],
            *arguments: Any,
            restore: Any = restore,
            **options: Any,
        ) -> None:
            kept = [(key, row) for key, row in rows if row is not None]
            restore(self, store, kept, *arguments, **options)

        _replace(owner, "restore", without_deletions)


def _copies_not_read_on() -> None:
    """A copy that has a part of a changelog is taken for whole."""
    from mustela.state.lmdb_environment import LmdbEnvironment

    restore: Any = LmdbEnvironment.restore

    def only_empty(
        self: Any, store: str, rows: Iterable[Any], *arguments: Any, **options: Any
    ) -> None:
        kept = list(rows)
        has_some = self.positions().get(store, 0) > 0
        restore(self, store, [] if has_some else kept, *arguments, **options)

    _replace(LmdbEnvironment, "restore", only_empty)


def _late_by_the_epoch() -> None:
    from mustela.plan.time import EpochTime

    def by_the_epoch(self: Any, order: Any) -> list[int]:
        return [self.watermark for _ in order]

    _replace(EpochTime, "judge", by_the_epoch)


def _held_for_ever() -> None:
    from mustela.kernel.windows.suppress import SuppressOperator

    def kept(self: Any, group: int, now: int) -> Any:
        return list(self._buffer(group).due(max(0, now - self._delay)))

    _replace(SuppressOperator, "_due", kept)


def _sessions_told_early() -> None:
    from mustela.kernel.windows.window_close import WindowCloser

    over: Any = WindowCloser.sessions_over

    def without_grace(self: Any, horizon: int, retention: int | None) -> Any:
        return over(self, horizon - 300, retention)

    _replace(WindowCloser, "sessions_over", without_grace)


def _sinks_in_turn() -> None:
    from mustela.kernel.records import sink

    _replace(sink, "places_of", lambda _order, _turns: None)


def _leavers_forgotten() -> None:
    from mustela.kernel.tables.table_group import TableGroupOperator

    process: Any = TableGroupOperator.process_one

    def without_olds(self: Any, batch: Any) -> Any:
        batch.olds = [None] * len(batch)
        return process(self, batch)

    _replace(TableGroupOperator, "process_one", without_olds)


_PLANTS: dict[str, Callable[[], None]] = {
    "offsets-before-rows": _offsets_before_rows,
    "state-before-commit": _state_before_commit,
    "dead-letters-lost": _dead_letters_lost,
    "changelog-ends-forgotten": _changelog_ends_forgotten,
    "watermark-forgotten": _watermark_forgotten,
    "met-and-alone": _met_and_alone,
    "rows-of-now-for-versions": _rows_of_now_for_versions,
    "deletions-not-restored": _deletions_not_restored,
    "copies-not-read-on": _copies_not_read_on,
    "late-by-the-epoch": _late_by_the_epoch,
    "held-for-ever": _held_for_ever,
    "sessions-told-early": _sessions_told_early,
    "sinks-in-turn": _sinks_in_turn,
    "leavers-forgotten": _leavers_forgotten,
}
