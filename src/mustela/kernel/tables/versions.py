"""Writing a versioned table: by timestamp, not by arrival."""

from __future__ import annotations

from collections.abc import Sequence

from mustela.kernel.core.lane_state import LaneStore
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.versioned import LATEST, NOT_PUT, VersionedRows
from mustela.state.overlay import StoreOverlay

__all__ = ["put_versions", "versioned_rows"]


def versioned_rows(view: StoreOverlay, spec: StoreSpec) -> VersionedRows:
    """Return the versions of one key group."""
    assert spec.history_retention_ms is not None, spec.name
    return VersionedRows(
        view, history_retention_ms=spec.history_retention_ms, segment_ms=spec.segment_ms
    )


def put_versions(
    store: LaneStore,
    spec: StoreSpec,
    keys: Sequence[bytes],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
) -> tuple[list[bytes | None], list[bool], list[int]]:
    """Put versions in order of arrival, and drop expired history.

    Args:
        store: The store.
        spec: Its specification.
        keys: Record keys.
        values: Encoded values; None for a deletion.
        timestamps: When each version becomes valid.

    Returns:
        For each row, the newest version's value before it, and whether the row is now the newest
        version; and the rows that were not put, because they are older than the history.
    """
    before: list[bytes | None] = [None] * len(keys)
    latest = [False] * len(keys)
    late: list[int] = []
    for view, places in store.by_group(keys):
        rows = versioned_rows(view, spec)
        mine = [keys[place] for place in places]
        known = dict(zip(mine, rows.latest_many(mine), strict=True))
        newest = {key: None if held is None else held.value for key, held in known.items()}
        written = [values[place] for place in places]
        results = rows.put_many(mine, written, [timestamps[place] for place in places])
        for place, key, value, valid_to in zip(places, mine, written, results, strict=True):
            before[place] = newest[key]
            if valid_to == LATEST:
                latest[place] = True
                newest[key] = value
            elif valid_to == NOT_PUT:
                late.append(place)
        rows.expire()
    return before, latest, sorted(late)
