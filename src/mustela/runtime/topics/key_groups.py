"""How many key groups an application has, where its settings leave that open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from mustela.config.settings import Settings
from mustela.plan.keygroups import DEFAULT_KEY_GROUPS
from mustela.runtime.record.epoch_record import EpochRecord

__all__ = ["chosen_key_groups", "first_key_groups", "recorded_key_groups"]

_PER_CORE = 4
_MIN, _MAX = 8, DEFAULT_KEY_GROUPS
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")


def first_key_groups(settings: Settings, *, joined: bool = False) -> int:
    """Return with how many key groups an application begins on this host.

    Each one costs the broker a partition per changelog, and every epoch that touches it a batch; a
    lane needs at least one. So: four for each core or lane, a power of two from 8 to 32, and more
    only where lanes or cores are more.

    Args:
        settings: The settings; ``key_groups`` decides if it is set.
        joined: Whether Spark belongs to somebody else, whose master the settings do not name.
    """
    if settings.key_groups is not None:
        return settings.key_groups
    named = settings.spark.get("spark.master", "local[*]")
    local = _LOCAL.fullmatch(named)
    # Whoever submits says the master to Spark alone.
    joined = joined or ("spark.master" not in settings.spark and _is_submitted())
    lanes = settings.lanes or 1
    if local is None or joined:
        # Executors may come later: nobody knows yet how many cores there will be.
        return max(DEFAULT_KEY_GROUPS, _power_of_two(lanes))
    told = local.group(1) or "1"
    cores = max(lanes, len(os.sched_getaffinity(0)) if told == "*" else int(told))
    return max(_MIN, min(_MAX, _power_of_two(_PER_CORE * cores)), _power_of_two(cores))


def recorded_key_groups(record: EpochRecord | None) -> int | None:
    """Return how many key groups the state of a record lies in.

    None if there is no state yet: nothing depends on their number then.
    """
    if record is not None and (record.groups or record.changelog_ends):
        return record.key_groups
    return None


def chosen_key_groups(
    settings: Settings, record: EpochRecord | None, changelogs: Iterable[int], *, first: int
) -> int:
    """Return how many key groups an application has.

    Args:
        settings: Its settings, which decide if they say a number.
        record: Its last epoch record.
        changelogs: How many partitions those of its changelogs have that exist: a first start that
            ended before its first commit may have been on another host.
        first: How many a first start begins with.
    """
    if settings.key_groups is not None:
        return settings.key_groups
    recorded = recorded_key_groups(record)
    if recorded is not None:
        return recorded
    made = {count for count in changelogs if count & (count - 1) == 0}
    return min(made) if made else first


def _is_submitted() -> bool:
    return bool(os.environ.get("PYSPARK_GATEWAY_PORT"))


def _power_of_two(count: int) -> int:
    """Return the smallest power of two that is not below a count."""
    return 1 << (count - 1).bit_length()
