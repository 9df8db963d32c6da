"""What cannot be right when Spark runs the lanes of an application on several hosts."""

from __future__ import annotations

from mustela.errors import Origin, UsageError
from mustela.plan.plan import Plan, Stage

__all__ = ["MemoryStateOnHostsError", "UnloggedStoreError", "check_hosts"]

_WHERE = "set spark.master to local[*]"


class UnloggedStoreError(UsageError):
    """A store without a changelog would be used on hosts that do not have its rows."""

    code = "STORE_UNLOGGED_HOSTS"


class MemoryStateOnHostsError(UsageError):
    """State would be kept in memory on hosts that Spark chooses afresh for each epoch."""

    code = "STATE_MEMORY_HOSTS"


def check_hosts(plan: Plan, *, master: str, state_backend: str) -> None:
    """See whether the state of a plan can follow its lanes from host to host.

    Spark runs a lane on any host, and a host that was not the last one to run it reads on in the
    changelogs.

    Args:
        plan: The plan.
        master: Spark's master, which is no single host.
        state_backend: Where state is kept.

    Raises:
        UnloggedStoreError: If a store has no changelog.
        MemoryStateOnHostsError: If state is kept in memory.
    """
    for stage in plan.stages:
        for store in stage.stores:
            if not store.logged:
                msg = f"store {store.name!r} has no changelog, and {master} may be several hosts"
                raise UnloggedStoreError(
                    msg,
                    at=_origin_of(stage, store.name),
                    why="Spark runs a lane on any host, and a store reaches another host only "
                    "through its changelog: there it would start empty",
                    fix=f"give {store.name!r} its changelog (logged=True), or {_WHERE}",
                    fields={"store": store.name},
                )
    if state_backend == "memory":
        msg = f"state.backend is memory, and {master} may be several hosts"
        raise MemoryStateOnHostsError(
            msg,
            why="memory is measured, allocated and freed only on the driver's host",
            fix=f"set state.backend to lmdb, or {_WHERE}",
        )


def _origin_of(stage: Stage, store: str) -> Origin | None:
    """Return the line of the first step that uses a store."""
    for step in stage.steps:
        if any(spec.name == store for spec in step.node.stores):
            return step.node.origin
    return None
