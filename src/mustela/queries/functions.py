"""Queries that are the user's own functions, with typed parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from mustela.errors import UsageError
from mustela.queries.errors import QueryError

__all__ = [
    "FUNCTION_TIMEOUT",
    "MIN_EPOCH",
    "FunctionParameterError",
    "Functions",
    "QueryFunction",
    "QueryRefusedError",
    "function_of",
]

F = TypeVar("F", bound=Callable[..., Any])

FUNCTION_TIMEOUT: Final = timedelta(seconds=5)
"""How long the snapshot of a function lives, unless it says otherwise."""
MIN_EPOCH: Final = "min_epoch"
"""What a client gives beside the parameters of a function: the epoch that must be committed."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class QueryRefusedError(UsageError):
    """Raised by a query function: the question has no answer.

    Args:
        what: What is wrong, for the client.
        status: The HTTP status, from 400 to 499.

    Example:
        >>> str(QueryRefusedError("there is no such city", status=404)).splitlines()[0]
        'there is no such city'
    """

    code = "QUERY_REFUSED"

    def __init__(self, what: str = "", *, status: int = 400, **more: Any) -> None:
        super().__init__(what, **more)
        if not 400 <= status <= 499:
            msg = f"a question is refused with a status from 400 to 499, not {status}"
            raise QueryError(msg, fix="raise another error if the function itself has failed")
        self.fields["status"] = status

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(self.fields["status"])


class FunctionParameterError(UsageError):
    """A parameter of a query is missing, unknown, or not of its type."""

    code = "QUERY_PARAMETER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter.

    Attributes:
        name: Its name.
        type: Its type.
        required: Whether it must be given.
    """

    name: str
    type: Any
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFunction:
    """One query.

    Attributes:
        name: Its name.
        call: The function; its first argument is a snapshot, the others are given by keyword.
        parameters: Those others.
        returns: The type of the result, if it is annotated.
        timeout: How long its snapshot lives.
        doc: The first line of its docstring.
    """

    name: str
    call: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    returns: Any
    timeout: timedelta
    doc: str

    def arguments(self, given: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
        """Return the arguments, converted to the types of the parameters.

        Args:
            given: The arguments by name.
            strict: Whether they have JSON's types already; otherwise they are text.

        Raises:
            FunctionParameterError: If one is missing, unknown, or not of its type.

        Example:
            >>> def top(snapshot, *, count: int = 10) -> list[str]: ...
            >>> function_of("top", top).arguments({"count": "3"}, strict=False)
            {'count': 3}
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                msg = f"query {self.name} has no parameter of one of the names that were given"
                fix = f"give {', '.join(known)}" if known else "leave the parameters out"
                raise FunctionParameterError(msg, fix=fix)
        found: dict[str, Any] = {}
        for name, parameter in known.items():
            if name in given:
                found[name] = self._converted(parameter, given[name], strict=strict)
            elif parameter.required:
                msg = f"query {self.name} needs the parameter {name}"
                raise FunctionParameterError(msg, fix=f"give {name}")
        return found

    def _converted(self, parameter: Parameter, value: Any, *, strict: bool) -> Any:
        try:
            return msgspec.convert(value, parameter.type, strict=strict)
        except msgspec.ValidationError as error:
            msg = f"parameter {parameter.name} of query {self.name}: {error}"
            raise FunctionParameterError(msg, fix="give a value of its type") from None


def function_of(
    name: str, call: Callable[..., Any], *, timeout: timedelta = FUNCTION_TIMEOUT
) -> QueryFunction:
    """Return a query whose parameters are those of a function.

    Args:
        name: Its name.
        call: The function.
        timeout: How long its snapshot lives.

    Raises:
        QueryError: If the function cannot be a query.
    """
    if _NAME.fullmatch(name) is None:
        msg = f"{name!r} cannot be the name of a query"
        raise QueryError(msg, fix="use letters, digits, dots, underscores and hyphens")
    listed = list(inspect.signature(call).parameters.values())
    if not listed or listed[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        msg = f"the function of query {name} does not take a snapshot"
        raise QueryError(msg, fix="make a snapshot its first parameter: def query(snapshot, ...)")
    try:
        hints = get_type_hints(call, include_extras=True)
    except (NameError, TypeError) as error:
        msg = f"the annotations of query {name} cannot be read: {error}"
        raise QueryError(msg, fix="import what they name outside of TYPE_CHECKING") from None
    return QueryFunction(
        name=name,
        call=call,
        parameters=tuple(_parameter(name, each, hints) for each in listed[1:]),
        returns=hints.get("return", Any),
        timeout=timeout,
        doc=(inspect.getdoc(call) or "").partition("\n")[0],
    )


def _parameter(query: str, found: inspect.Parameter, hints: Mapping[str, Any]) -> Parameter:
    empty: Any = inspect.Parameter.empty
    if found.kind in (
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    ):
        msg = f"parameter {found.name} of query {query} has no name of its own for a client"
        raise QueryError(msg, fix="give each parameter a name, and no *args or **kwargs")
    if found.name == MIN_EPOCH:
        msg = f"query {query} has a parameter {MIN_EPOCH}, which each query has already"
        why = "a client gives it to wait until that epoch is committed"
        raise QueryError(msg, why=why, fix="give the parameter another name")
    declared = hints.get(found.name, str)
    try:
        msgspec.json.schema(declared)
    except TypeError as error:
        msg = f"parameter {found.name} of query {query} has a type that no client can give: {error}"
        fix = "use numbers, text, dates, lists, dataclasses or Structs"
        raise QueryError(msg, fix=fix) from None
    return Parameter(name=found.name, type=declared, required=found.default is empty)


class Functions:
    """The queries of an application."""

    def __init__(self) -> None:
        self._known: dict[str, QueryFunction] = {}

    @property
    def known(self) -> Mapping[str, QueryFunction]:
        """The queries by name."""
        return self._known

    def add(self, name: str, timeout: timedelta) -> Callable[[F], F]:
        """Return a decorator that adds a function.

        Raises:
            QueryError: If there is one of that name already, or the function cannot be a query.
        """

        def added(call: F) -> F:
            made = function_of(name, call, timeout=timeout)
            if name in self._known:
                msg = f"there are two queries with the name {name!r}"
                raise QueryError(msg, fix="give one of them another name")
            self._known[name] = made
            return call

        return added
