"""What stops an application for good is written into its epoch record before it ends."""

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
    """Commit that sources lost what was read of them, so that the next start stops, too.

    Their logs may grow past what was read before that, and leader epochs need not tell. Where it
    cannot be committed those alone tell.

    Args:
        error: What ends the application; nothing is done about others.
        state: What is committed.
        committer: Commits it; no transaction is open.
        now_ms: Wall-clock time.
        listener: Is told if it cannot be committed.
    """
    if not isinstance(error, SourceTruncatedError):
        return
    stopped = state.claimed_by(state.incarnation + 1)  # a record of its own: none is written twice
    stopped.truncated = {**state.truncated, **error.fields["kept"]}
    try:
        committer.claim(stopped.to_record(now_ms))
    except MustelaError as fault:
        listener.on_error(fault)
