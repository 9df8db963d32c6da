"""The part of a plan whose stores a replica keeps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mustela.plan.plan import Plan
from mustela.queries.errors import UnknownStoreError

__all__ = ["readable", "with_stores"]


def with_stores(plan: Plan, names: Collection[str]) -> Plan:
    """Return a plan that has only some of its stores and global tables; all else stays.

    Args:
        plan: The plan.
        names: The stores that stay.

    Raises:
        UnknownStoreError: If one is not there, or has no changelog to follow.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.planner.planner import plan
        >>> builder = StreamsBuilder()
        >>> for name in ("prices", "stock"):
        ...     prices = builder.table(name, key=str, value=int, store=name)
        >>> list(with_stores(plan(builder.build()), {"stock"}).stores)
        ['stock']
    """
    logged = readable(plan)
    missing = sorted(set(names) - logged)
    if missing:
        listed = ", ".join(missing)
        msg = f"a replica cannot keep {listed}"
        raise UnknownStoreError(
            msg,
            why="the application has no such global table, and no such store with a changelog",
            fix=f"choose among {', '.join(sorted(logged))}" if logged else "choose another one",
            fields={"stores": missing},
        )
    stages = tuple(
        replace(stage, stores=tuple(spec for spec in stage.stores if spec.name in names))
        for stage in plan.stages
    )
    tables = tuple(table for table in plan.global_tables if table.store.name in names)
    return replace(plan, stages=stages, global_tables=tables)


def readable(plan: Plan) -> set[str]:
    """Return the stores and global tables that a replica can keep."""
    logged = {name for name, (_, spec) in plan.stores.items() if spec.logged}
    return logged | {table.store.name for table in plan.global_tables}
