"""Where a replica of its own process keeps its copies on this host."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mustela.errors import UsageError
from mustela.state.directories import make_private
from mustela.state.locking import try_hold

__all__ = ["PLACES_MAX", "TooManyReplicasError", "places_of", "replica_place"]

PLACES_MAX: Final = 32
"""How many replicas with the same stores one directory of state has room for."""
_DIRECTORY: Final = "~replica"


class TooManyReplicasError(UsageError):
    """As many replicas as one directory of state has room for are running."""

    code = "REPLICA_PLACES"


@contextmanager
def replica_place(
    state_dir: Path, application_id: str, stores: Collection[str] | None
) -> Generator[Path]:
    """Give the first directory that no other replica uses, for as long as the block lasts.

    One that comes back finds what it kept. The running application's own state stays alone.

    Args:
        state_dir: The directory of state.
        application_id: The application.
        stores: The stores that it keeps; None for all.

    Raises:
        TooManyReplicasError: If all are in use.
        StateDirectoryError: If others could change it.
    """
    home = state_dir / _DIRECTORY / application_id
    make_private(state_dir, home)
    kind = "all" if stores is None else _digest(stores)
    for number in range(1, PLACES_MAX + 1):
        place = home / f"{kind}-{number}"
        held = try_hold(home / f"{place.name}.lock")
        if held is None:
            continue
        try:
            yield place
        finally:
            os.close(held)
        return
    msg = f"{PLACES_MAX} replicas of {application_id} are running in {state_dir}"
    raise TooManyReplicasError(msg, fix="give this one a directory of its own: --set state_dir=…")


def places_of(state_dir: Path, application_id: str) -> Iterator[Path]:
    """Yield the directories of an application's replicas, whether they run or not."""
    home = state_dir / _DIRECTORY / application_id
    if home.is_dir() and not home.is_symlink():
        yield from sorted(place for place in home.iterdir() if place.is_dir())


def _digest(stores: Collection[str]) -> str:
    return hashlib.sha256("\0".join(sorted(stores)).encode()).hexdigest()[:12]
