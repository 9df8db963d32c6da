"""How long a local copy of a topic can be left behind before it may have missed a deletion.

A compacted topic keeps a deletion for a while only: a copy that reads on after it was dropped keeps
the deleted row for ever. The topic's own settings say how long a deletion stays.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["stale_ages"]

_DELETE_RETENTION_MS = 86_400_000
"""Kafka's own, for a broker that does not tell."""


def stale_ages(configs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return for each topic the age in milliseconds above which a copy is not to be believed.

    A deletion is not compacted before ``min.compaction.lag.ms``, and stays for
    ``delete.retention.ms`` after that; ``max.compaction.lag.ms`` shortens neither. A topic that
    also loses records by their age keeps no deletion longer than ``retention.ms``. Half of that is
    the age: the other half is for reading, and for clocks that differ.

    Args:
        configs: The settings of topics, as the broker tells them.

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
