"""What earlier lives and releases left on a host, deleted by who works there next.

The driver deletes on its own host. On a cluster nobody tells a host that a reset, or a release with
other stores, was somewhere else: so each host notes for which life, and for which start of it, it
keeps state, and the first task of a newer one clears up before it opens any.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mustela.state.directories import make_private, remove_orphans, remove_unclaimed
from mustela.state.interfaces import check_name
from mustela.state.locking import WriteLock

__all__ = ["GLOBAL_PREFIX", "Tenant", "clear_leftovers"]

GLOBAL_PREFIX: Final = "global-"
"""Copies of global tables belong to a topic, and to no life."""

_NOTE: Final = "tenant"
_LOCK: Final = "tenant.lock"
_LOCK_MS: Final = 60_000
"""How long a task waits while another one of its host deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """For whom a host keeps state.

    Attributes:
        application_id: The application.
        cluster_id: The Kafka cluster.
        life: The application's life, which a reset ends.
        incarnation: The start of the application that gives the orders; it counts up in a life.
    """

    application_id: str
    cluster_id: str
    life: str
    incarnation: int


def clear_leftovers(state_dir: Path, tenant: Tenant, claimed: Collection[str] | None) -> None:
    """Delete what nobody uses, if no task of this start has done so on this host.

    An older start than the host has seen deletes nothing: its orders are late.

    Args:
        state_dir: The directory of state.
        tenant: Who works on the host now.
        claimed: The names of the store sets and copies that its program uses; None if not all of
            them are known yet: then only the state of other lives goes.

    Raises:
        StateDirectoryError: If the directory is not this user's.
        StateIOError: If it cannot be made.
        StateLockedError: If another process has been deleting for a minute.
    """
    home = state_dir / check_name("application", tenant.application_id)
    make_private(state_dir, home)
    with WriteLock(home / _LOCK, _LOCK_MS).held():
        before = _read(home, tenant)
        same_life = before is None or (before.cluster_id, before.life) == _life(tenant)
        # A host without a note may have state that an older release left: it tells itself, when it
        # is opened, whose it is.
        reached = before.incarnation if before is not None and same_life else -1
        if same_life and (claimed is None or reached >= tenant.incarnation):
            if before is None:
                _write(home, tenant, -1)
            return
        remove_orphans()
        kept = {entry.name for entry in home.iterdir()}
        if claimed is not None:
            kept &= set(claimed)
        if not same_life:
            kept = {name for name in kept if name.startswith(GLOBAL_PREFIX)}
        remove_unclaimed(state_dir, tenant.application_id, kept)
        _write(home, tenant, -1 if claimed is None else tenant.incarnation)


def _life(tenant: Tenant) -> tuple[str, str]:
    return tenant.cluster_id, tenant.life


def _read(home: Path, tenant: Tenant) -> Tenant | None:
    try:
        cluster_id, life, incarnation = (home / _NOTE).read_text(encoding="utf-8").splitlines()
        reached = int(incarnation)
    except (OSError, ValueError):  # none yet, or the host lost power while it was written
        return None
    return Tenant(
        application_id=tenant.application_id,
        cluster_id=cluster_id,
        life=life,
        incarnation=reached,
    )


def _write(home: Path, tenant: Tenant, incarnation: int) -> None:
    new = home / f"{_NOTE}.new"
    new.write_text(f"{tenant.cluster_id}\n{tenant.life}\n{incarnation}\n", encoding="utf-8")
    os.replace(new, home / _NOTE)
