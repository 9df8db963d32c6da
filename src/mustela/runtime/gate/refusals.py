"""Writes what stops an application permanently into its epoch record before it ends."""

from __future__ import annotations

from mustela.errors import MustelaError
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.committer import Committer
from mustela.runtime.events import Listener
from mustela.runtime.gate.errors import SourceTruncatedError

__all__ = ["keep_refusing"]


def keep_refusing(
    error: MustelaError,
    state: CommittedState,
    committer: Committer,
    *,
    now_ms: int,
    listener: Listener,
) -> None:
    """Commit that sources lost records which were read, so that the next start stops, too.

    Before the next start their logs may grow past the read offsets, and leader epochs may not show
    the loss. If it cannot be committed, only leader epochs can show it.

    Args:
        error: The error that ends the application; other errors are ignored.
        state: The committed state.
        committer: Commits it; no transaction is open.
        now_ms: Wall-clock time.
        listener: Notified if it cannot be committed.
    """
    if not isinstance(error, SourceTruncatedError):
        return
    stopped = state.claimed_by(state.incarnation + 1)  # a separate record: none is written twice
    stopped.truncated = {**state.truncated, **error.fields["kept"]}
    try:
        committer.claim(stopped.to_record(now_ms))
    except MustelaError as fault:
        listener.on_error(fault)
