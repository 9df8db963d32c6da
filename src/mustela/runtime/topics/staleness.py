"""How long a local copy of a topic may stay unused before it may have missed a deletion.

A compacted topic keeps a deletion only for a while: a copy that continues after the deletion was
removed keeps the deleted row forever. The topic's settings say how long a deletion stays.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["stale_ages"]

_DELETE_RETENTION_MS = 86_400_000
"""Kafka's defaults, for a broker that does not report its settings."""


def stale_ages(configs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return, for each topic, the age in milliseconds above which a copy must not be used.

    A deletion is not compacted before ``min.compaction.lag.ms``, and stays for
    ``delete.retention.ms`` after that; ``max.compaction.lag.ms`` shortens neither. A topic that
    also deletes records by age keeps no deletion longer than ``retention.ms``. Half of that is the
    age: the other half is for reading, and for clocks that differ.

    Args:
        configs: The settings of topics, as reported by the broker.

    Example:
        >>> stale_ages({"counts": {"delete.retention.ms": "60000", "min.compaction.lag.ms": "0"}})
        {'counts': 30000}
    """
    return {topic: _kept_ms(config) // 2 for topic, config in configs.items()}


def _kept_ms(config: Mapping[str, str]) -> int:
    kept = _number(config, "delete.retention.ms", _DELETE_RETENTION_MS)
    kept += _number(config, "min.compaction.lag.ms", 0)
    if "delete" in config.get("cleanup.policy", ""):
        retention = _number(config, "retention.ms", -1)
        return kept if retention < 0 else min(kept, retention)
    return kept


def _number(config: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(config[name])
    except (KeyError, ValueError):
        return default
