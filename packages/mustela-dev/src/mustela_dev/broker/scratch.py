"""Temporary directories, and cleaning up those that killed programs left.

They are data directories of brokers that keep no data.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path

from mustela.state.abandoned import delete_abandoned
from mustela_dev.broker.child import mark_of
from mustela_dev.broker.settings import LOGS_DIRECTORY

__all__ = ["is_served", "new_scratch"]

_NAME = re.compile(r"mustela-broker-(\d+)-(\d+)-.*")


def new_scratch(parent: Path | None = None) -> Path:
    """Create a directory for this program, and delete those whose program has ended.

    A killed program cannot clean up; the next one does it instead.

    Args:
        parent: The parent directory; default: the system's temporary directory.
    """
    place = parent or Path(tempfile.gettempdir())
    delete_abandoned(place, "mustela-broker-", _is_abandoned)
    mine = mark_of(os.getpid())
    started = 0 if mine is None else mine.started
    return Path(tempfile.mkdtemp(prefix=f"mustela-broker-{os.getpid()}-{started}-", dir=place))


def is_served(data_dir: Path) -> bool:
    """Return whether a running Kafka holds the lock that each Kafka takes on its data."""
    try:
        with (data_dir / LOGS_DIRECTORY / ".lock").open("r+b") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as problem:
        return problem.errno in {errno.EAGAIN, errno.EACCES}
    return False


def _is_abandoned(place: Path) -> bool:
    found = _NAME.fullmatch(place.name)
    if found is None:
        return False
    owner = mark_of(int(found.group(1)))
    gone = owner is None or owner.started != int(found.group(2))
    # A program in another container has an id that means nothing here, but Kafka's lock does.
    return gone and not is_served(place)
