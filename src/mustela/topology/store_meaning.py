"""What the rows of a store mean: later versions of the program have to agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, NamedTuple

from mustela.serdes.base import Serde
from mustela.serdes.meaning import serde_format, serde_shape
from mustela.serdes.row_versions import FIRST_VERSION
from mustela.state.interfaces import StoreSpec

__all__ = [
    "OldMeaning",
    "StoreMeaning",
    "join_meanings",
    "packed_meaning",
    "rows_left",
    "store_meaning",
]


class OldMeaning(NamedTuple):
    """What rows of an older version mean.

    Attributes:
        version: The version.
        value: Format of the values.
        value_shape: Their structure, as in `StoreMeaning`.
    """

    version: int
    value: str
    value_shape: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMeaning:
    """What the rows of a store mean; plain text and numbers, the same in every process.

    Attributes:
        kind: The kind of the store.
        layout: How its rows are laid out (`StoreSpec.layout`).
        key: Format of the keys (`mustela.serdes.meaning`).
        value: Format of the values.
        key_shape: The structure of the keys, as JSON; empty if the format says it all.
        value_shape: The structure of the values, likewise.
        window: The windows, sessions or partners of the rows; empty for none.
        grace_ms: How long after its end a window takes late records; -1 for no windows.
        retention_ms: How long rows are kept; -1 for ever.
        ttl_ms: How long a row is kept after it was written; -1 for ever.
        owner: The steps that write the store, by name.
        operation: What they do.
        logged: Whether the store has a changelog.
        version: The version of the rows that are written.
        older: The older versions: those that a program reads, or of which rows may still exist.
        indexes: By what else rows are found, in words; lines are made of the rows.

    Example:
        >>> StoreMeaning(kind="key_value", layout="key_value 1", key="str", value="int").as_dict()
        {'kind': 'key_value', 'layout': 'key_value 1', 'key': 'str', 'value': 'int'}
    """

    kind: str
    layout: str
    key: str
    value: str
    key_shape: str = ""
    value_shape: str = ""
    window: str = ""
    grace_ms: int = -1
    retention_ms: int = -1
    owner: str = ""
    operation: str = ""
    logged: bool = True
    version: int = FIRST_VERSION
    older: tuple[OldMeaning, ...] = ()
    ttl_ms: int = -1
    indexes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, without those that hold their default."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default or field.default is MISSING
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StoreMeaning:
        """Return the meaning behind `as_dict`; fields written by a later version are ignored.

        Example:
            >>> meaning = StoreMeaning(kind="list", layout="list 1", key="str", value="int")
            >>> StoreMeaning.from_dict(meaning.as_dict() | {"new": 1}) == meaning
            True
        """
        known = {field.name for field in fields(cls)}
        older = tuple(OldMeaning(*one) for one in data.get("older", ()))
        indexes = tuple(data.get("indexes", ()))
        plain = known - {"older", "indexes"}
        rest = {name: value for name, value in data.items() if name in plain}
        return cls(**rest, older=older, indexes=indexes)


def store_meaning(
    spec: StoreSpec,
    *,
    owner: str,
    operation: str,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
) -> StoreMeaning:
    """Return what a store means, as far as its specification says.

    Args:
        spec: The store.
        owner: The step that writes it.
        operation: What the step does.
        key: Serde of the keys, if it is not the specification's.
        value: Serde of the values, likewise.

    Example:
        >>> store_meaning(StoreSpec(name="s", kind="key_value"), owner="s", operation="table").key
        'bytes'
    """
    keys = key or spec.key_serde
    values = value or spec.value_serde
    versions = spec.row_versions
    held = versions is not None and versions.held
    written = versions.older[held].serde if versions is not None and held else values
    kept = spec.history_retention_ms if spec.traits.versioned else spec.retention_ms
    window = "" if spec.window_ms is None else f"windows of {spec.window_ms} ms"
    return StoreMeaning(
        kind=spec.kind,
        layout=spec.layout,
        key=serde_format(keys),
        value=serde_format(written),
        key_shape=serde_shape(keys),
        value_shape=serde_shape(written),
        window=window,
        retention_ms=-1 if kept is None else kept,
        owner=owner,
        operation=operation,
        logged=spec.logged,
        version=FIRST_VERSION if versions is None else versions.written,
        older=_older(spec),
        ttl_ms=-1 if spec.ttl_ms is None else spec.ttl_ms,
        indexes=tuple(f"{name} {index.told()}".strip() for name, index in spec.indexes),
    )


def _older(spec: StoreSpec) -> tuple[OldMeaning, ...]:
    if spec.row_versions is None:
        return ()
    return tuple(
        OldMeaning(version, serde_format(old.serde), serde_shape(old.serde))
        for version, old in spec.row_versions.older.items()
        if version < spec.row_versions.written
    )


def rows_left(then: StoreMeaning, now: StoreMeaning) -> tuple[OldMeaning, ...]:
    """Return the older versions of which rows may remain when a later program continues.

    Args:
        then: What the rows meant when they were written; ``older`` are versions that may remain.
        now: What the program writes.

    Example:
        >>> then = store_meaning(StoreSpec(name="s"), owner="s", operation="table")
        >>> rows_left(then, then), rows_left(then, replace(then, version=2))
        ((), (OldMeaning(version=1, value='bytes', value_shape=''),))
    """
    if then.version == now.version:
        return then.older
    return (*then.older, OldMeaning(then.version, then.value, then.value_shape))


def packed_meaning(meaning: StoreMeaning, packing: str, *parts: Serde[Any] | None) -> StoreMeaning:
    """Return the meaning of a store whose values hold several things in Mustela's own form.

    Args:
        meaning: What the store means otherwise.
        packing: What the values are.
        parts: Serdes of what they hold.

    Example:
        >>> spec = StoreSpec(name="s")
        >>> plain = store_meaning(spec, owner="s", operation="calls")
        >>> packed_meaning(plain, "parked", None).value
        'parked(bytes)'
    """
    formats = ", ".join(map(serde_format, parts))
    shapes = [serde_shape(part) for part in parts]
    older: tuple[OldMeaning, ...] = ()
    if len(parts) == 1:  # the versions are those of the one part
        older = tuple(
            OldMeaning(old.version, f"{packing}({old.value})", _held([old.value_shape]))
            for old in meaning.older
        )
    return replace(
        meaning,
        value=f"{packing}({formats})" if formats else packing,
        value_shape=_held(shapes),
        older=older,
    )


def _held(shapes: list[str]) -> str:
    return f'["holds",{",".join(one or "null" for one in shapes)}]' if any(shapes) else ""


def join_meanings(first: StoreMeaning, second: StoreMeaning) -> StoreMeaning:
    """Return the meaning of a store that two steps write; they differ only in their names.

    Example:
        >>> spec = StoreSpec(name="s")
        >>> one, two = (store_meaning(spec, owner=step, operation="process") for step in "ba")
        >>> join_meanings(one, two).owner
        'a, b'
    """
    owners = sorted({*first.owner.split(", "), *second.owner.split(", ")})
    operations = sorted({*first.operation.split(", "), *second.operation.split(", ")})
    return replace(first, owner=", ".join(owners), operation=", ".join(operations))
