"""The differences between what a store's rows mean and what a program expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from mustela.serdes.meaning import Shape, shape_text
from mustela.serdes.widening import widening
from mustela.topology.store_meaning import OldMeaning, StoreMeaning

# Shapes are JSON, whose types are known only at run time.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

__all__ = ["MeaningChange", "compare_meanings"]

_HEADERS = ", headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaningChange:
    """One difference between two meanings of a store.

    Attributes:
        field: Which attribute of `StoreMeaning`.
        then: What it was when the rows were written, in words.
        now: What it is in the program.
        compatible: Whether the program can read the rows without loss.
        why: What follows from the difference.
    """

    field: str
    then: str
    now: str
    compatible: bool
    why: str


def compare_meanings(then: StoreMeaning, now: StoreMeaning) -> list[MeaningChange]:
    """Return the differences between two meanings of a store, in the order of their fields.

    Args:
        then: What the rows meant when they were written.
        now: What the program expects.

    Example:
        >>> minute = StoreMeaning(
        ...     kind="window", layout="window 1", key="str", value="int",
        ...     window="windows of 60000 ms")
        >>> from dataclasses import replace
        >>> changes = compare_meanings(minute, replace(minute, window="windows of 120000 ms"))
        >>> [(change.field, change.compatible) for change in changes]
        [('window', False)]
        >>> changes = compare_meanings(minute, replace(minute, grace_ms=5))
        >>> [(change.field, change.compatible) for change in changes]
        [('grace_ms', True)]
    """
    return [*_rows(then, now), *_bytes(then, now), *_times(then, now), *_steps(then, now)]


def _rows(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    if then.kind != now.kind:
        why = "each kind of store lays its rows out in its own way"
        yield _change("kind", then.kind, now.kind, why)
    elif then.layout != now.layout:
        gains = f"{then.layout}{_HEADERS}" == now.layout
        why = "rows without headers are read as having none" if gains else "rows cannot be found"
        yield _change("layout", then.layout, now.layout, why, compatible=gains)


def _bytes(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    if then.key != now.key:
        yield _change("key", then.key, now.key, "the same key has other bytes")
    elif _shape(then.key_shape) != _shape(now.key_shape):
        was, new = _told(then.key_shape), _told(now.key_shape)
        yield _change("key_shape", was, new, "the same key may have other bytes")
    if then.version != now.version:
        yield from _versions(then, now)
        return
    yield from _older(then, now)
    if then.value != now.value:
        yield _change("value", then.value, now.value, "the formats have different bytes")
    elif then.value_shape != now.value_shape:
        found = widening(_shape(then.value_shape), _shape(now.value_shape))
        if found.problems or found.gained:
            was, new = _told(then.value_shape), _told(now.value_shape)
            why = "; ".join(found.problems or found.gained)
            yield _change("value_shape", was, new, why, compatible=found.readable)


def _versions(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    """Compare rows of one version with a program of another."""
    was, new = f"version {then.version}", f"version {now.version}"
    if now.version < then.version:
        yield _change("fallen", was, new, "rows of a later version may be there")
        return
    missing = list(_older(then, now))
    missing += _unread(OldMeaning(then.version, then.value, then.value_shape), now)
    yield from missing
    if not missing:
        why = "older rows are upgraded when they are read"
        yield _change("version", was, new, why, compatible=True)


def _older(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    """Compare rows that may remain from older versions with what a program reads of them."""
    for old in then.older:
        yield from _unread(old, now)


def _unread(old: OldMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    """Check that a program reads rows of a version as what they are."""
    reads = next((one for one in now.older if one.version == old.version), None)
    was, told = f"rows of version {old.version}", f"version {now.version}"
    if reads is None:
        why = "the program has no upgrade from that version"
        yield _change("upgrade", was, f"{told} without an upgrade from {old.version}", why)
        return
    found = widening(_shape(old.value_shape), _shape(reads.value_shape))
    if old.value != reads.value or not found.readable:
        was += f", {_told(old.value_shape) if old.value_shape else old.value}"
        new = _told(reads.value_shape) if reads.value_shape else reads.value
        why = "; ".join(found.problems) or "the formats have different bytes"
        yield _change("upgrade", was, f"an upgrade of {new}", why)


def _times(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    if then.window != now.window:
        why = "rows of some windows cannot be continued as rows of others"
        yield _change("window", then.window or "none", now.window or "none", why)
    for field in ("grace_ms", "retention_ms", "ttl_ms"):
        was, new = getattr(then, field), getattr(now, field)
        if was != new:
            longer = new == -1 or (was != -1 and new > was)
            why = "holds from now on; " + (
                "rows already dropped stay dropped" if longer else "older rows are dropped"
            )
            yield _change(field, _ms(was), _ms(new), why, compatible=True)


def _steps(then: StoreMeaning, now: StoreMeaning) -> Iterator[MeaningChange]:
    for field in ("owner", "operation"):
        was, new = getattr(then, field), getattr(now, field)
        if was != new:
            why = "existing rows are taken as they are"
            yield _change(field, was, new, why, compatible=True)
    if then.indexes != now.indexes:
        was, new = (", ".join(one.indexes) or "none" for one in (then, now))
        why = "indexes are made of the rows that are there"
        yield _change("indexes", was, new, why, compatible=True)
    if then.logged != now.logged:
        was, new = (("logged" if one.logged else "not logged") for one in (then, now))
        yield _change("logged", was, new, "the changelog shows what was lost", compatible=True)


def _change(
    field: str, then: str, now: str, why: str, *, compatible: bool = False
) -> MeaningChange:
    return MeaningChange(field=field, then=then, now=now, compatible=compatible, why=why)


def _shape(text: str) -> Shape:
    """Return a shape without the names of its classes, which are not part of the bytes."""
    return _unnamed(json.loads(text)) if text else "any"


def _unnamed(shape: Shape) -> Shape:
    match shape:
        case {"class": _, "fields": fields, **rest}:
            return {"class": "", "fields": _unnamed(fields), **rest}
        case ["classes", *_]:
            return shape
        case list():
            return [_unnamed(item) for item in shape]
        case _:
            return shape


def _told(text: str) -> str:
    return shape_text(json.loads(text)) if text else "any"


def _ms(value: int) -> str:
    return "for ever" if value == -1 else f"{value} ms"
