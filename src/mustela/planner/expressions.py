"""Recognizes functions whose body is one expression without effects.

Source text and code have to agree: the text found in the function's file is compiled, and taken
only if it gives the very code that the function has. So neither an edited file nor two functions on
one line can be mistaken for it.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, cast

from mustela.plan.expression import Expression
from mustela.topology.node import Node

__all__ = ["FUNCTIONS", "explained", "expression_of"]

FUNCTIONS: Final = ("mapper", "predicate", "predicates", "joiner", "chooser", "topic")
"""The fields of nodes whose functions are called once for each row of a batch."""

_BUILTINS: Final = frozenset(
    {
        *("abs", "bool", "bytes", "chr", "complex", "divmod", "float", "frozenset", "hash", "int"),
        *("len", "max", "min", "ord", "round", "str", "sum", "tuple"),
    }
)
_METHODS: Final = frozenset(
    {
        *("capitalize", "casefold", "decode", "encode", "endswith", "find", "hex", "isalnum"),
        *("isalpha", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "isupper"),
        *("lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind"),
        *("rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip"),
        *("swapcase", "title", "upper", "zfill"),
    }
)
"""Methods of text and bytes, none of which changes anything."""
_PLAIN: Final = (
    ast.Attribute,
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.Compare,
    ast.Constant,
    ast.Dict,
    ast.FormattedValue,
    ast.IfExp,
    ast.JoinedStr,
    ast.List,
    ast.Name,
    ast.Slice,
    ast.Subscript,
    ast.Tuple,
    ast.UnaryOp,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
    ast.keyword,
    ast.operator,
    ast.unaryop,
)
_SHOWN: Final = 80
_LARGEST: Final = 200
"""Nodes of a tree: what is longer than that is not slow because it is called."""


def expression_of(function: Any) -> Expression | None:
    """Return the function as an expression, None if it is anything else.

    Example:
        >>> def total(order):
        ...     return order.price * order.quantity
        >>> print(expression_of(str.split))
        None
    """
    if not isinstance(function, FunctionType) or not _is_plain(function):
        return None
    for candidate in _candidates(function.__code__):
        body = _body(candidate)
        if body is not None and _without_effects(body, function):
            if not _same(_compiled(candidate, function.__code__), function.__code__):
                continue
            code = function.__code__
            parameters = code.co_varnames[: code.co_argcount]
            mentioned = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
            used = tuple(i for i, name in enumerate(parameters) if name in mentioned)
            if used:  # a constant has no column that says how many rows there are
                return Expression(function, ast.unparse(body), parameters, used)
    return None


def _is_plain(function: FunctionType) -> bool:
    """Whether it takes one argument for each column, and nothing else decides what it does."""
    code = function.__code__
    usual = not (function.__defaults__ or function.__kwdefaults__ or code.co_kwonlyargcount)
    return usual and not code.co_flags & _UNUSUAL and not hasattr(function, "__wrapped__")


_UNUSUAL: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200
"""*args, **kwargs, generators, coroutines: flags of `inspect`."""


@lru_cache(maxsize=64)
def _parsed(_name: str, text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _candidates(code: CodeType) -> Iterator[ast.Lambda | ast.FunctionDef]:
    """The functions in the file that begin where this one does."""
    lines = linecache.getlines(code.co_filename)
    tree = _parsed(code.co_filename, "".join(lines)) if lines else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            begins = node.lineno
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            begins = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        else:
            continue
        if begins == code.co_firstlineno:
            yield node


def _body(node: ast.Lambda | ast.FunctionDef) -> ast.expr | None:
    """What it returns, if it does nothing else."""
    if isinstance(node, ast.Lambda):
        return node.body
    statements = node.body
    if isinstance(statements[0], ast.Expr) and isinstance(statements[0].value, ast.Constant):
        statements = statements[1:]  # its docstring
    if len(statements) == 1 and isinstance(statements[0], ast.Return):
        return statements[0].value
    return None


def _without_effects(body: ast.expr, function: FunctionType) -> bool:
    """Whether computing it again, for a batch in which one row raised, changes nothing."""
    nodes = list(ast.walk(body))
    return len(nodes) <= _LARGEST and all(_harmless(node, function) for node in nodes)


def _harmless(node: ast.AST, function: FunctionType) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=keywords):
            known = name in _BUILTINS and name not in function.__code__.co_varnames
            return known and _is_builtin(name, function) and _no_stars(node, keywords)
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Name(id=name)), keywords=[]):
            return _is_dict(name, function) and _no_stars(node, [])
        case ast.Call(func=ast.Attribute(attr=name), keywords=keywords):
            return name in _METHODS and _no_stars(node, keywords)
        case ast.Call() | ast.Starred():
            return False
        case ast.Dict(keys=keys):
            return None not in keys
        case ast.Name(id=name):
            return not name.startswith("_column_")
        case _:
            return isinstance(node, _PLAIN)


def _no_stars(call: ast.Call, keywords: list[ast.keyword]) -> bool:
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not starred and all(keyword.arg is not None for keyword in keywords)


def _is_builtin(name: str, function: FunctionType) -> bool:
    """Whether the name means the builtin, and not something of the user's."""
    hidden = name in function.__globals__ or name in function.__code__.co_freevars
    return not hidden and hasattr(builtins, name)


def _is_dict(name: str, function: FunctionType) -> bool:
    """Whether the name means a plain dictionary from outside of the function."""
    code = function.__code__
    if name in code.co_varnames:
        return False
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return type(cell.cell_contents) is dict
        except ValueError:  # it has no value yet
            return False
    return type(function.__globals__.get(name)) is dict


def _compiled(node: ast.Lambda | ast.FunctionDef, code: CodeType) -> CodeType | None:
    """Compile the text as it stands inside a function that has its free names."""
    names = [ast.arg(arg=name) for name in code.co_freevars]
    arguments = ast.arguments(
        posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    if isinstance(node, ast.Lambda):
        statements: list[ast.stmt] = [ast.Return(value=node)]
    else:
        bare = ast.FunctionDef(
            name=node.name, args=node.args, body=node.body, decorator_list=[], returns=None
        )
        statements = [bare, ast.Return(value=ast.Name(id=node.name, ctx=ast.Load()))]
    outer = ast.FunctionDef(
        name="_outer", args=arguments, body=statements, decorator_list=[], returns=None
    )
    for made in ast.walk(outer):
        if isinstance(made, ast.FunctionDef) and not hasattr(made, "type_params"):
            made.type_params = []  # pyright: ignore[reportAttributeAccessIssue] - since Python 3.12
    module = ast.Module(body=[outer], type_ignores=[])
    try:
        whole = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    except (SyntaxError, ValueError, RecursionError):
        return None
    within = next((one for one in whole.co_consts if isinstance(one, CodeType)), None)
    inner = within.co_consts if within is not None else ()
    return next((one for one in inner if isinstance(one, CodeType)), None)


def _same(made: CodeType | None, code: CodeType) -> bool:
    """Whether two codes do the same: everything but where they stand in a file."""
    return made is not None and _content(made) == _content(code)


def _content(code: CodeType) -> tuple[object, ...]:
    # 1 and True and 1.0 are equal, and are not the same constant.
    constants = [f"{type(one).__name__} {one!r}" for one in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, constants, names, code.co_argcount, code.co_posonlyargcount


def explained(node: Node) -> Iterator[str]:
    """Say how a node's functions run: as a column, or called for each row."""
    for name in FUNCTIONS:
        given: Any = getattr(node, name, None)
        several = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
        for function in several:
            if isinstance(function, Expression):
                yield f"inlined {textwrap.shorten(function.text, _SHOWN)}"
            elif callable(function):
                called: str = getattr(function, "__qualname__", type(function).__qualname__)
                yield f"calls {called.rsplit('<locals>.', 1)[-1]}"
