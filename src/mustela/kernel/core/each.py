"""Calling a user's function once for each row, at the speed of `map`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Protocol, runtime_checkable

from mustela.plan.batch import Batch
from mustela.plan.expression import Expression, is_watched

__all__ = [
    "MovedRows",
    "Repeating",
    "call_each",
    "drop",
    "keep_mask",
    "materialize",
    "repeated",
    "truths",
    "without",
]

OnFailure = Callable[[int, Exception], None]


def call_each(
    function: Callable[..., Any], columns: Sequence[Sequence[Any]], on_failure: OnFailure
) -> tuple[list[Any], list[int]]:
    """Call ``function`` once for each row of ``columns``, even if it raises on some of them.

    `list.extend` keeps what it got before an exception, and the iterator resumes after the row that
    failed: the function never runs twice for a row, and good rows cost nothing extra. An
    `Expression` is computed for all rows at once, and only called where it raises, or where a
    debugger looks.

    Args:
        function: Called with one argument per column.
        columns: Columns of equal length.
        on_failure: Called with row and error; may raise to end the batch. A method ``again``, if it
            has one, decides whether to retry the row; see `Repeating`.

    Returns:
        The results, None where the function failed, and the rows where it did, ascending.
    """
    if isinstance(function, Expression):
        try:
            if not is_watched():
                return function.column(columns), []
        except Exception:  # noqa: BLE001 - it has no effects: the rows tell which of them it was
            pass
        function = function.function
    results: list[Any] = []
    failed: list[int] = []
    count = len(columns[0])
    calls = map(function, *columns)
    while len(results) < count:
        try:
            results.extend(calls)
            if len(results) < count:
                # extend would take a StopIteration from the function for the end of the rows.
                msg = "the function raised StopIteration"
                raise RuntimeError(msg)
        except Exception as error:  # noqa: BLE001 - the function is the user's
            row = len(results)
            if isinstance(on_failure, Repeating):
                made, succeeded = repeated(function, columns, row, error, on_failure)
            else:
                on_failure(row, error)
                made, succeeded = None, False
            if not succeeded:
                failed.append(row)
            results.append(made)
    return results, failed


@runtime_checkable
class Repeating(Protocol):
    """Handles a failure, and may ask to retry the row."""

    def __call__(self, row: int, error: Exception, /) -> None:
        """Handle the failure of a row that is not retried."""
        ...

    def again(self, row: int, error: Exception, /) -> bool:
        """Handle the failure of a row; return whether to retry it."""
        ...


class MovedRows:
    """Handles failures of rows that have other places in their original batch.

    Args:
        rows: The place of each there.
        on_failure: Handles failures of that batch.
    """

    __slots__ = ("_on_failure", "_rows")

    def __init__(self, rows: Sequence[int], on_failure: OnFailure) -> None:
        self._rows = rows
        self._on_failure = on_failure

    def __call__(self, row: int, error: Exception) -> None:
        """Handle the failure of a row that is not retried."""
        self._on_failure(self._rows[row], error)

    def again(self, row: int, error: Exception) -> bool:
        """Handle the failure of a row; return whether to retry it."""
        found, on_failure = self._rows[row], self._on_failure
        if isinstance(on_failure, Repeating):
            return on_failure.again(found, error)
        on_failure(found, error)
        return False


def repeated(
    function: Callable[..., Any],
    columns: Sequence[Sequence[Any]],
    row: int,
    error: Exception,
    on_failure: Repeating,
) -> tuple[Any, bool]:
    """Call ``function`` again for a row as often as its handler wants.

    Args:
        function: The function that failed.
        columns: Columns of equal length.
        row: The row.
        error: What it raised.
        on_failure: Decides whether to retry, within limits.

    Returns:
        The result, and whether there is one.
    """
    arguments = [column[row] for column in columns]
    while on_failure.again(row, error):
        try:
            return function(*arguments), True
        except Exception as another:  # noqa: BLE001 - the function is the user's
            error = another
    return None, False


def truths(answers: list[Any], failed: list[int], on_failure: OnFailure) -> list[Any]:
    """Return the answers of a predicate as plain booleans.

    An answer without a truth value, such as an array, fails its row, which is added to ``failed``.
    """
    if set(map(type, answers)) <= {bool, type(None)}:
        return answers
    plain, wrong = call_each(bool, (answers,), on_failure)
    if wrong:
        failed[:] = sorted({*failed, *wrong})
    return plain


def without(batch: Batch, failed: Sequence[int]) -> Batch:
    """Return the batch without the rows ``failed``."""
    return batch.select(keep_mask(len(batch), failed)) if failed else batch


def keep_mask(count: int, failed: Sequence[int]) -> bytearray:
    """Return a mask of ``count`` ones with zeros at ``failed``."""
    mask = bytearray(b"\x01") * count
    for row in failed:
        mask[row] = 0
    return mask


def drop(column: list[Any], failed: Sequence[int]) -> list[Any]:
    """Return the column without the rows ``failed``."""
    return list(compress(column, keep_mask(len(column), failed))) if failed else column


def materialize(result: Any) -> Sequence[Any]:
    """Return the result of a flat-mapping function as a sequence; a generator runs to its end.

    Raises:
        TypeError: If it is not a collection of results.
    """
    if type(result) is list or type(result) is tuple:
        return result  # pyright: ignore[reportUnknownVariableType]
    if isinstance(result, (str, bytes)):
        msg = f"the function returned a {type(result).__name__}, not a list of results"
        raise TypeError(msg)
    if not isinstance(result, Iterable):
        msg = f"the function returned {type(result).__name__}, not a list of results"
        raise TypeError(msg)
    return list(result)  # pyright: ignore[reportUnknownArgumentType]
