"""Known bugs, planted to show that the harness would find them.

A child application gets one by its environment: see `environment_of`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.process import ROOT


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
}
"""By name, every bug; the first points are the fewest that show it."""


def environment_of(name: str) -> dict[str, str]:
    """Return the variables that plant a bug in a child and in all its processes."""
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    planted = str(Path(__file__).parent / "planted")
    return {
        "FAULTS_BUG": name,
        "PYTHONPATH": os.pathsep.join([planted, str(ROOT), *before]),
        **dict(BUGS[name].environment),
    }


def plant(name: str) -> None:
    """Plant a bug in this process."""
    bug = _PLANTS.get(name)
    if bug is not None:
        bug()


def _replace(owner: type, name: str, value: object) -> None:
    setattr(owner, name, value)


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
    from mustela.runtime.committer import Committer

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
    from mustela.runtime.committer import Committer

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

    from mustela.runtime.committed import CommittedState

    build: Any = CommittedState.from_record.__func__  # type: ignore[attr-defined]

    def forgetful(cls: Any, record: Any, *arguments: Any, **options: Any) -> Any:
        parts = [msgspec.structs.replace(p, max_timestamp=-1) for p in record.partitions]
        record = msgspec.structs.replace(record, watermark=-1, partitions=parts)
        return build(cls, record, *arguments, **options)

    _replace(CommittedState, "from_record", classmethod(forgetful))


_PLANTS: dict[str, Callable[[], None]] = {
    "offsets-before-rows": _offsets_before_rows,
    "state-before-commit": _state_before_commit,
    "dead-letters-lost": _dead_letters_lost,
    "changelog-ends-forgotten": _changelog_ends_forgotten,
    "watermark-forgotten": _watermark_forgotten,
}
