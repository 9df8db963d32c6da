"""Folds that are written from what an aggregate is said to be: one function for all its cells.

An aggregate keeps a list of cells. What is done with each is a line or two of Python; the lines of
all cells make one function, as `dataclass` makes its methods. So a record costs one call, a field
is fetched once whoever needs it, and two aggregates that keep the same (the total of ``Sum`` and
``Avg``) keep it once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Final, Literal

from mustela.errors import Origin
from mustela.serdes.aggregates import Cells, Holding
from mustela.topology import fold_cells, sketches

__all__ = [
    "CELL_KINDS",
    "Access",
    "Cell",
    "CellKind",
    "Field",
    "WrittenFold",
    "written_fold",
    "written_rows",
]

Access = Literal["any", "attribute", "key"]
"""How a field that is named is found in a value: by whichever fits it, or always the same way."""

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
"""Every kind of cell. The names are in stores: they are only ever added, never given anew."""

_HELPERS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "add_distinct": sketches.add_distinct,
        "add_exact": fold_cells.add_exact,
        "add_ranked": fold_cells.add_ranked,
        "add_top": fold_cells.add_top,
        "best_last": fold_cells.best_last,
        "best_of": fold_cells.best_of,
        "bucket_of": sketches.bucket_of,
        "distinct_count": sketches.distinct_count,
        "exact_total": fold_cells.exact_total,
        "goes_first": fold_cells.goes_first,
        "merge_distinct": sketches.merge_distinct,
        "merge_top": fold_cells.merge_top,
        "newer": fold_cells.newer,
        "quantile_of": sketches.quantile_of,
        "remove_ranked": fold_cells.remove_ranked,
        "subtract_exact": fold_cells.subtract_exact,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One thing that an aggregate keeps.

    Attributes:
        kind: What is done with it, a name of `CELL_KINDS`.
        field: What is added; None for the value itself.
        where: Which values are added; None for all.
        number: How many values are kept, or how exact it is, where the kind says so.
        source: Which of several streams it is of.
    """

    kind: str
    field: Field = None
    where: Callable[[Any], object] | None = None
    number: float | None = None
    source: int = 0

    @property
    def holding(self) -> Holding:
        """What it holds; the last of whole values is one of them."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFold:
    """The functions of an aggregate, as an aggregation takes them.

    Attributes:
        initializer: () -> cells.
        adder: (key, value, cells) -> cells.
        merger: (key, cells, cells) -> cells.
        subtractor: (key, value, cells) -> cells; None if something cannot be taken out.
    """

    initializer: Callable[[], Cells]
    adder: Callable[[Any, Any, Cells], Cells]
    merger: Callable[[Any, Cells, Cells], Cells]
    subtractor: Callable[[Any, Any, Cells], Cells] | None


def written_fold(
    cells: Sequence[Cell],
    *,
    at: Origin,
    sources: Sequence[Access] = ("any",),
    retracts: bool = False,
) -> WrittenFold:
    """Write the functions that fold values into cells.

    Args:
        cells: What is kept.
        at: The user's line: what fails in the functions is reported there.
        sources: For each stream how a field of its values is found; with several streams a value
            is (source, value).
        retracts: Whether values are taken out again.

    Example:
        >>> from mustela.errors import Origin
        >>> cells = [Cell(kind="count"), Cell(kind="total", field="amount")]
        >>> fold = written_fold(cells, at=Origin(file="app.py", line=1, code=""))
        >>> fold.adder("key", {"amount": 5}, fold.initializer())
        [1, 5]
        >>> fold.merger("key", [1, 5], [2, 7])
        [3, 12]
    """
    names: dict[str, Any] = dict(_HELPERS)
    firsts = ", ".join(CELL_KINDS[cell.kind].first for cell in cells)
    source = [f"def first():\n    return [{firsts}]"]
    source.append(_updating("add", cells, names, sources, [CELL_KINDS[c.kind].add for c in cells]))
    merges = [
        CELL_KINDS[cell.kind].merge.format(s=f"s[{n}]", o=f"others[{n}]", n=_number(cell))
        for n, cell in enumerate(cells)
    ]
    source.append("def merge(key, s, others):\n" + _indented([*merges, "return s"]))
    if retracts:
        lines = [CELL_KINDS[cell.kind].subtract or "" for cell in cells]
        assert all(lines), [cell.kind for cell in cells]
        source.append(_updating("subtract", cells, names, sources, lines))
    _run("\n".join(source), names, at)
    return WrittenFold(
        initializer=names["first"],
        adder=names["add"],
        merger=names["merge"],
        subtractor=names.get("subtract"),
    )


def written_rows(
    results: Sequence[str], make: Callable[..., Any], names: Sequence[str] | None, *, at: Origin
) -> Callable[[Cells], Any]:
    """Write the function that makes a row of cells.

    Args:
        results: For each field of the row an expression over ``s``, the cells.
        make: Makes the row.
        names: The fields by which it is called; None if it takes them in order.
        at: The user's line.
    """
    made = f"make({', '.join(results)})"
    if names is not None:
        pairs = zip(names, results, strict=True)
        by_name = f"{{{', '.join(f'{name!r}: {result}' for name, result in pairs)}}}"
        made = by_name if make is dict else f"make(**{by_name})"
    space: dict[str, Any] = {**_HELPERS, "make": make}
    _run(f"def rows(s):\n    return {made}", space, at)
    rows: Callable[[Cells], Any] = space["rows"]
    return rows


def _updating(
    name: str,
    cells: Sequence[Cell],
    names: dict[str, Any],
    sources: Sequence[Access],
    lines: Sequence[str],
) -> str:
    """Write a function that goes over the cells with a value."""
    written: list[str] = []
    if any(CELL_KINDS[cell.kind].timed for cell in cells):
        written.append("if value is not None: value, t = value")
    if len(sources) == 1:
        written += _of_source(sources[0], cells, range(len(cells)), names, lines)
    else:
        written.append("source, value = value")
        for source, access in enumerate(sources):
            mine = [n for n, cell in enumerate(cells) if cell.source == source]
            body = _of_source(access, cells, mine, names, lines)
            written += [f"if source == {source}:", _indented(body or ["pass"])]
    return f"def {name}(key, value, s):\n" + _indented([*written, "return s"])


def _of_source(
    access: Access,
    cells: Sequence[Cell],
    mine: Sequence[int],
    names: dict[str, Any],
    lines: Sequence[str],
) -> list[str]:
    """Write what is done with a value: first what counts records, then what looks into it.

    Nothing that the user said becomes code: names of fields are written as texts or attributes, and
    functions are called by names of our own.
    """
    given = (cells[n].field for n in mine)
    fields = [field for field in dict.fromkeys(given) if field is not None]
    places = {field: f"x{place}" for place, field in enumerate(fields)}
    by_name = [field for field in fields if isinstance(field, str)]
    records: list[str] = []
    looking: list[str] = []
    if by_name and access == "key":
        looking += [f"{places[field]} = value[{field!r}]" for field in by_name]
    elif by_name and access == "attribute":
        looking += [f"{places[field]} = {_attribute(field)}" for field in by_name]
    elif by_name:
        from_dict = [f"{places[field]} = value[{field!r}]" for field in by_name]
        from_other = [f"{places[field]} = {_attribute(field)}" for field in by_name]
        looking += ["if type(value) is dict:", _indented(from_dict), "else:", _indented(from_other)]
    for field in fields:
        if not isinstance(field, str):
            looking.append(f"{places[field]} = {_named(field, names)}(value)")
    groups: dict[tuple[Any, Any], list[str]] = {}
    for n in mine:
        cell = cells[n]
        x = "value" if cell.field is None else places[cell.field]
        line = lines[n].format(s=f"s[{n}]", x=x, v="value", n=_number(cell))
        if cell.kind == "count" and cell.field is None and cell.where is None:
            records.append(line)
        else:
            groups.setdefault((cell.where, x), []).append(line)
    for (where, x), mine_lines in groups.items():
        tests = [f"{x} is not None"] if x != "value" else []
        if where is not None:
            tests.insert(0, f"{_named(where, names)}(value)")
        looking += [f"if {' and '.join(tests)}:", _indented(mine_lines)] if tests else mine_lines
    return [*records, "if value is not None:", _indented(looking)] if looking else records


def _attribute(field: str) -> str:
    is_name = field.isidentifier() and not iskeyword(field)
    return f"value.{field}" if is_name else f"getattr(value, {field!r})"


def _named(function: Callable[..., Any], names: dict[str, Any]) -> str:
    """Return the name by which written code calls a function."""
    found = next((name for name, known in names.items() if known is function), None)
    name = found or f"f{len(names)}"
    names[name] = function
    return name


def _number(cell: Cell) -> str:
    return repr(cell.number)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join("    " + line for block in lines for line in block.split("\n"))


def _run(source: str, names: dict[str, Any], at: Origin) -> None:
    """Run written code as if it stood on the user's line."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.arg):
            node.lineno = node.end_lineno = at.line
            node.col_offset = node.end_col_offset = 0
    names["__name__"] = "mustela.written"
    exec(compile(tree, at.file, "exec"), names)
