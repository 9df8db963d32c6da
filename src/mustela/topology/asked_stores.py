"""The stores that a processor is sure to ask for: read from its code, before it runs.

What a processor asks its context for is known for certain only when it runs. But its code shows
much: ``context.state_store("seen")`` in ``init``, or in ``process`` without a condition before it,
is called with the first record at the latest. Only such calls count, and only names that are known
without running anything, so no program that works is refused.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from mustela.errors import Origin

__all__ = ["AskedStore", "asked_stores"]

Option = Literal["stores", "reads"]

_ASKING: Final[Mapping[str, Option]] = MappingProxyType(
    {"state_store": "stores", "get_state_store": "stores", "any_key_store": "reads"}
)
_METHODS: Final = ("init", "process")
_LATER = (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
_PERHAPS = (ast.IfExp, ast.BoolOp)
_PLAIN = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Assert, ast.Delete)


class AskedStore(NamedTuple):
    """A store that a processor asks for.

    Attributes:
        name: The store.
        option: The option of the step that declares its use.
        at: The line that asks for it.
    """

    name: str
    option: Option
    at: Origin


class _Method(NamedTuple):
    """A method that is examined.

    Attributes:
        processor: Whose method it is.
        function: The method.
        arguments: The names of its arguments: the processor itself, and what it is called with.
        lines: Its source.
        first: The number of the first line in its file.
    """

    processor: object
    function: Any
    arguments: Sequence[str]
    lines: Sequence[str]
    first: int


def asked_stores(processor: object) -> tuple[AskedStore, ...]:
    """Return the stores that a processor is sure to ask for by name, in ``init`` or ``process``.

    Args:
        processor: One that its supplier has made.

    Example:
        >>> class Plain:
        ...     def process(self, record):
        ...         print(record)
        >>> asked_stores(Plain())
        ()
    """
    found: dict[tuple[str, str], AskedStore] = {}
    for name in _METHODS:
        function = getattr(type(processor), name, None)
        if not inspect.isfunction(function) or str(function.__module__).startswith("mustela."):
            continue
        try:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (OSError, SyntaxError, TypeError, IndexError):
            continue  # a program that was typed in, or generated, has no source
        if isinstance(tree, ast.FunctionDef):
            arguments = [argument.arg for argument in tree.args.args]
            method = _Method(processor, function, arguments, lines, first)
            for asked in _asked(tree.body, method):
                found.setdefault((asked.name, asked.option), asked)
    return tuple(found.values())


def _asked(body: Sequence[ast.stmt], method: _Method) -> Iterator[AskedStore]:
    """Yield the stores that statements ask for, up to the first one that may not go on."""
    for statement in body:
        if isinstance(statement, _PLAIN):
            yield from _calls(statement, method)
            if isinstance(statement, ast.Return):
                return
        elif isinstance(statement, ast.If) and _by_record(statement.test, method):
            yield from _asked(statement.body, method)
            yield from _asked(statement.orelse, method)
        elif not isinstance(statement, ast.Pass | ast.FunctionDef | ast.Import | ast.ImportFrom):
            return


def _by_record(test: ast.expr, method: _Method) -> bool:
    """Whether a condition depends only on the record: true for some, false for others."""
    if method.function.__name__ != "process":
        return False
    known = {*method.arguments[1:], *vars(builtins)}
    return all(node.id in known for node in ast.walk(test) if isinstance(node, ast.Name))


def _calls(node: ast.AST, method: _Method) -> Iterator[AskedStore]:
    if isinstance(node, (*_LATER, *_PERHAPS)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, method)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _ASKING
        and len(node.args) == 1
        and _is_context(node.func.value, method)
    ):
        name = _text(node.args[0], method)
        if name is not None:
            file = method.function.__code__.co_filename
            code = method.lines[node.lineno - 1].strip()
            option = _ASKING[node.func.attr]
            yield AskedStore(name, option, Origin(file, method.first + node.lineno - 1, code))


def _is_context(node: ast.expr, method: _Method) -> bool:
    """Whether an expression is the argument of ``init``, or a field named after it."""
    if isinstance(node, ast.Attribute):
        return _is_processor(node.value, method) and "context" in node.attr
    given = list(method.arguments[1:2]) if method.function.__name__ == "init" else []
    return isinstance(node, ast.Name) and [node.id] == given


def _is_processor(node: ast.expr, method: _Method) -> bool:
    return isinstance(node, ast.Name) and [node.id] == list(method.arguments[:1])


def _text(node: ast.expr, method: _Method) -> str | None:
    """Return the text of an expression: a literal, or what a name stands for."""
    found: object = None
    if isinstance(node, ast.Constant):
        found = node.value
    elif isinstance(node, ast.Name):
        found = _meaning(node.id, method.function)
    elif isinstance(node, ast.Attribute) and _is_processor(node.value, method):
        found = getattr(method.processor, node.attr, None)
    return found if isinstance(found, str) else None


def _meaning(name: str, function: Callable[..., Any]) -> object:
    """Return what a name means in a function, unless the function assigns it itself."""
    code = function.__code__
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # it has no meaning yet
            return None
    return None if name in code.co_varnames else function.__globals__.get(name)
