"""What aggregates keep: cells, and what is done with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mustela.serdes.aggregates import Holding

__all__ = ["CELL_KINDS", "Cell", "CellKind", "Field"]

Field = str | Callable[[Any], Any] | None
"""A key of a dict or an attribute, a function of the value, or the value itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellKind:
    """What is done with a cell; the texts are lines of Python.

    Attributes:
        first: What a cell begins with.
        add: Adds ``{x}`` (the field), or ``{v}`` (the whole value) ranked by it, to ``{s}``.
        merge: Adds another cell ``{o}`` to ``{s}``.
        subtract: Takes a value out again; None if that cannot be done.
        holds: What the cell holds, if it holds whole values.
        timed: Whether ``{t}``, the record's time, is needed.
    """

    first: str
    add: str
    merge: str
    subtract: str | None = None
    holds: Holding = "plain"
    timed: bool = False


_BEST = "c = {s}\nif c is None or {x} OP c:\n    if {x} == {x}: {s} = {x}"
_BEST_OF_TWO = "if {o} is not None and ({s} is None or {o} OP {s}): {s} = {o}"
_BEST_BY = (
    "c = {s}\n"
    "if c is None or (not {x} WORSE c[0] and ({x} OP c[0] or goes_first({v}, c[1]))):\n"
    "    if {x} == {x}: {s} = [{x}, {v}]"
)
_BEST_BY_OF_TWO = (
    "c, o = {s}, {o}\n"
    "if o is not None and (c is None or o[0] OP c[0] or"
    " (o[0] == c[0] and goes_first(o[1], c[1]))): {s} = o"
)


def _best(operator: str) -> CellKind:
    add, merge = _BEST.replace("OP", operator), _BEST_OF_TWO.replace("OP", operator)
    return CellKind(first="None", add=add, merge=merge)


def _best_by(operator: str) -> CellKind:
    add, merge = _BEST_BY.replace("OP", operator), _BEST_BY_OF_TWO.replace("OP", operator)
    add = add.replace("WORSE", {"<": ">", ">": "<"}[operator])
    return CellKind(first="None", add=add, merge=merge, holds="entry")


def _top(largest: bool) -> CellKind:
    return CellKind(
        first="[]",
        add=f"add_top({{s}}, {{x}}, {{v}}, {{n}}, {largest})",
        merge=f"merge_top({{s}}, {{o}}, {{n}}, {largest})",
        holds="entries",
    )


_COUNTED = "c, x = {s}, {x}\nc[x] = c.get(x, 0) + 1"
_UNCOUNTED = "c, x = {s}, {x}\nif x in c:\n    if c[x] > 1: c[x] -= 1\n    else: del c[x]"
_SUMMED = "c = {s}\nfor x, n in {o}.items(): c[x] = c.get(x, 0) + n"
_BUCKET = "x = bucket_of({x}, {n})\nif x is not None:\n    "


CELL_KINDS: Final[Mapping[str, CellKind]] = MappingProxyType(
    {
        "count": CellKind(first="0", add="{s} += 1", merge="{s} += {o}", subtract="{s} -= 1"),
        "number": CellKind(first="0", add="{s} += 1", merge="{s} += {o}", subtract="{s} -= 1"),
        "total": CellKind(
            first="None",
            add="c = {s}\n{s} = {x} if c is None else c + {x}",
            merge="if {o} is not None: {s} = {o} if {s} is None else {s} + {o}",
        ),
        "exact total": CellKind(
            first="None",
            add="{s} = add_exact({s}, {x})",
            merge="raise NotImplementedError",
            subtract="{s} = subtract_exact({s}, {x})",
        ),
        "least": _best("<"),
        "greatest": _best(">"),
        "least by": _best_by("<"),
        "greatest by": _best_by(">"),
        "lowest": _top(largest=False),
        "top": _top(largest=True),
        "all by": CellKind(
            first="[]",
            add="add_ranked({s}, {x}, {v})",
            merge="raise NotImplementedError",
            subtract="remove_ranked({s}, {x}, {v})",
            holds="entries",
        ),
        "all": CellKind(
            first="[]",
            add="add_ranked({s}, {x}, None)",
            merge="raise NotImplementedError",
            subtract="remove_ranked({s}, {x}, None)",
        ),
        "distinct": CellKind(first="{}", add="{s}[{x}] = 1", merge="{s}.update({o})"),
        "counts": CellKind(first="{}", add=_COUNTED, merge=_SUMMED, subtract=_UNCOUNTED),
        "about distinct": CellKind(
            first="{}",
            add="{s} = add_distinct({s}, {x})",
            merge="{s} = merge_distinct({s}, {o})",
        ),
        "buckets": CellKind(
            first="{}",
            add=_BUCKET + "c = {s}\n    c[x] = c.get(x, 0) + 1",
            merge=_SUMMED,
            subtract=_BUCKET
            + "c = {s}\n    if c.get(x, 0) > 1: c[x] -= 1\n    else: c.pop(x, None)",
        ),
        "last": CellKind(
            first="None",
            add="c = {s}\nif c is None or t >= c[0]: {s} = [t, {x}]",
            merge="{s} = newer({s}, {o})",
            timed=True,
        ),
    }
)
"""Every kind of cell. Stores hold these names: add new ones, but never reuse one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One thing that an aggregate keeps.

    Attributes:
        kind: What is done with it, a name of `CELL_KINDS`.
        field: What is added; None for the value itself.
        where: Which values are added; None for all.
        number: How many values are kept, or how exact it is, where the kind says so.
        source: Which of several streams it belongs to.
    """

    kind: str
    field: Field = None
    where: Callable[[Any], object] | None = None
    number: float | None = None
    source: int = 0

    @property
    def holding(self) -> Holding:
        """What it holds; the last value without a field is a whole value."""
        if self.kind == "last" and self.field is None:
            return "entry"
        return CELL_KINDS[self.kind].holds

    @property
    def layout(self) -> str:
        """What its bytes depend on."""
        field = self.field if isinstance(self.field, str) else "()" if self.field else ""
        number = "" if self.number is None else f"{self.number:g}"
        only = "" if self.where is None else "where"
        return " ".join(part for part in (self.kind, number, field, only) if part)
