"""A user's function whose body is one expression without effects, run over columns.

The expression stands inside one list comprehension, in the function's own globals: the operations,
their order and their results are those of a call for each row, without the calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

__all__ = ["Expression", "comprehension", "is_watched"]

_COLUMN = "_column_{}"


class Expression:
    """A function that can also be computed for whole columns.

    Args:
        function: The user's function; called by whoever needs one row.
        text: The expression that it returns, as Python text.
        parameters: The names of its parameters.
        used: Which of these the expression mentions, in order.

    Example:
        >>> double = Expression(lambda key, value: value * 2, "value * 2", ("key", "value"), (1,))
        >>> double("a", 4), double.column([["a", "b"], [4, 5]])
        (8, [8, 10])
    """

    __slots__ = ("_run", "function", "parameters", "text", "used")

    def __init__(
        self,
        function: Callable[..., Any],
        text: str,
        parameters: tuple[str, ...],
        used: tuple[int, ...],
    ) -> None:
        self.function = function
        self.text = text
        self.parameters = parameters
        self.used = used
        self._run: Callable[..., list[Any]] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the user's function."""
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text; it is compiled where it runs."""
        return Expression, (self.function, self.text, self.parameters, self.used)

    @property
    def __code__(self) -> CodeType:
        """The function's own code, which tells its lines."""
        return self.function.__code__

    def column(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the result for each row of the arguments' columns.

        Raises:
            Exception: What the expression raises for the first row for which it does. Nothing has
                happened then: the function can be called for each row.
        """
        used = self.used
        if len(used) == 1 and self.text == self.parameters[used[0]]:
            return list(columns[used[0]])
        run = self._run
        if run is None:
            run = self._run = self._compiled()
        cells = self.function.__closure__ or ()
        return run(*(cell.cell_contents for cell in cells), *(columns[place] for place in used))

    def _compiled(self) -> Callable[..., list[Any]]:
        free = self.function.__code__.co_freevars
        names = tuple(self.parameters[place] for place in self.used)
        code = compile(comprehension(self.text, free, names), self.__code__.co_filename, "eval")
        made: Callable[..., list[Any]] = eval(code, self.function.__globals__)
        return made


def is_watched() -> bool:
    """Whether a debugger or a measure of coverage wants to see each call of a function."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # since Python 3.12
    if monitoring is None:
        return False
    tools = (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID)
    return any(monitoring.get_tool(tool) is not None for tool in tools)


def comprehension(text: str, free: Sequence[str], names: Sequence[str]) -> str:
    """Return a function, as text, of the closure's values and of one column for each name.

    Example:
        >>> comprehension("value * factor", ["factor"], ["value"])
        'lambda factor, _column_0: [value * factor for value in _column_0]'
    """
    columns = [_COLUMN.format(place) for place in range(len(names))]
    head = ", ".join([*free, *columns])
    if len(names) == 1:
        return f"lambda {head}: [{text} for {names[0]} in {columns[0]}]"
    return (
        f"lambda {head}: [{text} for {', '.join(names)} in zip({', '.join(columns)}, strict=True)]"
    )
