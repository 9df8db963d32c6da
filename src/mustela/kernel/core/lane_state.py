"""The state of one lane: its key groups, each with the writes of the running epoch above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from mustela.errors import InvariantError
from mustela.plan.keygroups import key_group, key_groups_of
from mustela.state.interfaces import StoreSpec
from mustela.state.overlay import Overlay, StoreOverlay

__all__ = ["LaneState", "LaneStore"]

Routes = list[tuple[StoreOverlay, list[int]]]


class LaneStore:
    """One store over all key groups of a lane.

    Args:
        name: The store's name.
        overlays: The store's view in each key group of the lane.
        key_groups: Number of key groups of the application.
        prefix: How many bytes precede the record's key in a store key.
        suffix: How many trailing bytes of a record key do not count for its key group.

    Attributes:
        swept_by: The step that deletes expired rows and forwards the deletions, if there is one.
    """

    __slots__ = (
        "_key_groups",
        "_overlays",
        "_prefix",
        "_routed_keys",
        "_routes",
        "_single",
        "_suffix",
        "name",
        "swept_by",
    )

    def __init__(
        self,
        name: str,
        overlays: Mapping[int, StoreOverlay],
        key_groups: int,
        *,
        prefix: int = 0,
        suffix: int = 0,
    ) -> None:
        self.name = name
        self.swept_by: str | None = None
        self._prefix = prefix
        self._suffix = suffix
        self._overlays = overlays
        self._key_groups = key_groups
        self._single = next(iter(overlays.values())) if key_groups == 1 and overlays else None
        self._routed_keys: Sequence[bytes] = ()
        self._routes: Routes = []

    def _route(self, keys: Sequence[bytes]) -> Routes:
        """Group the places of the keys by key group; the last answer is kept for the write."""
        if keys is self._routed_keys:
            return self._routes
        prefix = self._prefix
        record_keys = [key[prefix:] for key in keys] if prefix else keys
        self._routes = self._divide(self.groups_of(record_keys))
        self._routed_keys = keys
        return self._routes

    def _divide(self, groups: Sequence[int]) -> Routes:
        places: dict[int, list[int]] = {}
        for place, group in enumerate(groups):
            if group in places:
                places[group].append(place)
            else:
                places[group] = [place]
        return [(self._overlay(group), found) for group, found in places.items()]

    def groups_of(self, keys: Sequence[bytes]) -> list[int]:
        """Return the key group of each record key."""
        return key_groups_of(keys, self._key_groups, suffix=self._suffix)

    def _overlay_of(self, key: bytes) -> StoreOverlay:
        return self._overlay(key_group(key[self._prefix :], self._key_groups, suffix=self._suffix))

    def _overlay(self, group: int) -> StoreOverlay:
        try:
            return self._overlays[group]
        except KeyError:
            msg = f"key group {group} is not one of this lane's: {sorted(self._overlays)}"
            raise InvariantError(msg, evidence={"store": self.name}) from None

    @property
    def groups(self) -> list[int]:
        """The key groups that are open in this lane."""
        return sorted(self._overlays)

    def group(self, group: int) -> StoreOverlay:
        """Return the store in one key group; for kinds whose store keys hold more than the key.

        Raises:
            InvariantError: If the key group is not one of this lane's.
        """
        return self._overlay(group)

    def by_group(self, keys: Sequence[bytes]) -> Routes:
        """Return the key groups of the record keys, each with the places of its keys."""
        if self._single is not None:
            return [(self._single, list(range(len(keys))))] if keys else []
        return self._divide(self.groups_of(keys)) if self._prefix else self._route(keys)

    def get(self, key: bytes) -> bytes | None:
        """Return the current value of ``key``, or None."""
        return self._overlay_of(key).get(key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the current values of ``keys``, in their order, with one fetch per key group."""
        if self._single is not None:
            return self._single.getmulti(keys)
        found: list[bytes | None] = [None] * len(keys)
        for overlay, places in self._route(keys):
            values = overlay.getmulti([keys[place] for place in places])
            for place, value in zip(places, values, strict=True):
                found[place] = value
        return found

    def before_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values that ``keys`` had before the epoch, in the same order."""
        if self._single is not None:
            return self._single.before_many(keys)
        found: list[bytes | None] = [None] * len(keys)
        for overlay, places in self._route(keys):
            values = overlay.before_many([keys[place] for place in places])
            for place, value in zip(places, values, strict=True):
                found[place] = value
        return found

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set the values of ``keys``; None deletes, and the last value of a repeated key wins.

        Cheapest with the list that was last passed to `getmulti`.
        """
        if self._single is not None:
            self._single.put_many(zip(keys, values, strict=True))
            return
        for overlay, places in self._route(keys):
            overlay.put_many([(keys[place], values[place]) for place in places])

    def delete(self, key: bytes) -> None:
        """Remove ``key``; an absent key is fine."""
        self._overlay_of(key).delete(key)


class LaneState:
    """All stores of a lane during one epoch.

    Args:
        overlays: The overlay of each key group of the lane.
        key_groups: Number of key groups of the application.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> spec = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                        stores=(StoreSpec(name="counts"),))
        >>> overlay = Overlay(MemoryEnvironment(spec).snapshot(Committed()))
        >>> state = LaneState({0: overlay}, key_groups=1)
        >>> state.store("counts").put_many([b"apple"], [b"1"])
        >>> state.changes()
        {0: {'counts': [(b'apple', b'1')]}}
    """

    __slots__ = ("_key_groups", "_overlays", "_stores")

    def __init__(self, overlays: Mapping[int, Overlay], *, key_groups: int) -> None:
        self._overlays = dict(overlays)
        self._key_groups = key_groups
        self._stores: dict[str, LaneStore] = {}

    @property
    def groups(self) -> list[int]:
        """The key groups of the lane."""
        return sorted(self._overlays)

    def overlay(self, group: int) -> Overlay:
        """Return the overlay of one key group."""
        return self._overlays[group]

    def store(
        self, name: str, *, prefix: int = 0, suffix: int = 0, spec: StoreSpec | None = None
    ) -> LaneStore:
        """Return one store, the same object every time; see `LaneStore`.

        For a store that keeps more than its rows, ``spec`` selects a view of the rows alone.
        """
        found = self._stores.get(name)
        if found is None:
            views = {group: overlay.store(name) for group, overlay in self._overlays.items()}
            if spec is not None:  # a view of records as they are put, like an overlay
                put = {group: spec.traits.rows(view, spec) for group, view in views.items()}
                views = cast("dict[int, StoreOverlay]", put)
            found = LaneStore(name, views, self._key_groups, prefix=prefix, suffix=suffix)
            self._stores[name] = found
        return found

    def changes(self) -> dict[int, dict[str, list[tuple[bytes, bytes | None]]]]:
        """Return the rows to store and to log, by key group and store."""
        found = {group: overlay.changes() for group, overlay in sorted(self._overlays.items())}
        return {group: changes for group, changes in found.items() if changes}

    def close(self) -> None:
        """Close the underlying snapshots."""
        overlays: Iterable[Overlay] = self._overlays.values()
        for overlay in overlays:
            overlay.close()
