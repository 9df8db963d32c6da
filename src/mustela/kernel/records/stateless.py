"""Operators that handle one record at a time and keep no state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

from mustela.kernel.core.each import MovedRows, call_each, drop, materialize, truths, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.operator import N, Operator
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.topology.stateless import (
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    ForeachNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)

__all__ = [
    "FilterOperator",
    "FlatMapOperator",
    "FlatMapValuesOperator",
    "ForeachOperator",
    "MapOperator",
    "MapValuesOperator",
    "MergeOperator",
    "PeekOperator",
    "SelectKeyOperator",
]


class FunctionOperator(Operator[N]):
    """An operator with one user's function."""

    replaces: ClassVar[bool] = True

    def run_function(
        self, function: Callable[..., Any], batch: Batch, *, keyed: bool
    ) -> tuple[list[Any], list[int]]:
        """Call the function once for each row; see `call_each`."""
        columns = (batch.keys, batch.values) if keyed else (batch.values,)
        return call_each(function, columns, failing(batch, self.user_failures(function)))


class MapValuesOperator(FunctionOperator[MapValuesNode]):
    """Replaces the value of each record."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace each value."""
        values, failed = self.run_function(self.node.mapper, batch, keyed=self.node.with_key)
        return without(batch.with_values(values), failed)


class FlatMapValuesOperator(FunctionOperator[FlatMapValuesNode]):
    """Replaces each record by any number of records with the same key."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace each record by one record per result."""
        node = self.node
        results, failed = flat_results(self, node.mapper, batch, keyed=node.with_key)
        batch = without(batch, failed)
        results = drop(results, failed)
        made = batch.expand(map(len, results), list(chain.from_iterable(results)), None)
        return numbered(made, results) if self.step.numbers else made


def numbered(made: Batch, results: Iterable[Sequence[Any]]) -> Batch:
    """Return the results of records, each as a record that is ordered after those before it.

    Args:
        made: The rows.
        results: The results of each record.
    """
    order = made.order
    if order is None:
        return made
    numbers = chain.from_iterable(map(range, map(len, results)))
    return made.with_origins([(*place, n) for place, n in zip(order, numbers, strict=True)])


def flat_results(
    operator: FunctionOperator[Any], function: Callable[..., Any], batch: Batch, *, keyed: bool
) -> tuple[list[Any], list[int]]:
    """Call a flat-mapping function once for each row, and return its results as sequences.

    A function that returns lists runs at the speed of `map`. A generator is run to its end before
    the next row begins, as in a loop.
    """
    lazy = False

    def whole(*arguments: Any) -> Sequence[Any]:
        nonlocal lazy
        result = function(*arguments)
        lazy = type(result) is not list and type(result) is not tuple
        return materialize(result)

    failures = operator.user_failures(function)
    columns: tuple[list[Any], ...] = (batch.keys, batch.values) if keyed else (batch.values,)
    first: tuple[list[Any], ...] = tuple(column[:1] for column in columns)
    results, failed = call_each(whole, first, failing(batch, failures))
    rest = tuple(column[1:] for column in columns)
    if not rest[0]:
        return results, failed
    on_failure = MovedRows(range(1, len(batch)), failing(batch, failures))
    more, more_failed = call_each(whole if lazy else function, rest, on_failure)
    failed.extend(row + 1 for row in more_failed)
    results.extend(more)
    if not set(map(type, results)) <= {list, tuple}:
        settle(results, failed, failing(batch, failures))
    return results, failed


def settle(
    results: list[Any], failed: list[int], on_failure: Callable[[int, Exception], None]
) -> None:
    """Replace the results that are not sequences by sequences, in place."""
    done = set(failed)
    for row, result in enumerate(results):
        if row in done:
            continue
        try:
            results[row] = materialize(result)
        except Exception as error:  # noqa: BLE001 - a generator of the user's may raise anything
            on_failure(row, error)
            failed.append(row)
    failed.sort()


def check_pair(result: Any) -> None:
    """Refuse a result that is not a pair of key and value.

    Raises:
        TypeError: If it is not a tuple or list of two.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
        told = type(result).__name__  # pyright: ignore[reportUnknownArgumentType]
        msg = f"the function must return a pair (key, value), not a {told}"
        if isinstance(result, (tuple, list)):
            msg += f" of {len(result)}"  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(msg)


def all_pairs(results: Sequence[Any]) -> bool:
    """Return whether every result is a pair of key and value."""
    types = set(map(type, results))
    return all(issubclass(kind, (tuple, list)) for kind in types) and set(map(len, results)) <= {2}


class MapOperator(FunctionOperator[MapNode]):
    """Replaces the key and value of each record."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace each key and value."""
        pairs, failed = self.run_function(self.node.mapper, batch, keyed=True)
        batch, pairs = without(batch, failed), drop(pairs, failed)
        if not all_pairs(pairs):
            on_failure = failing(batch, self.user_failures(self.node.mapper))
            _, wrong = call_each(check_pair, (pairs,), on_failure)
            batch, pairs = without(batch, wrong), drop(pairs, wrong)
        return batch.with_keys([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: the keys are new."""
        return None


class FlatMapOperator(FunctionOperator[FlatMapNode]):
    """Replaces each record by any number of records."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace each record by one record per pair."""
        results, failed = flat_results(self, self.node.mapper, batch, keyed=True)
        batch, results = without(batch, failed), drop(results, failed)
        pairs = list(chain.from_iterable(results))
        if not all_pairs(pairs):
            on_failure = failing(batch, self.user_failures(self.node.mapper))
            _, wrong = call_each(_check_pairs, (results,), on_failure)
            batch, results = without(batch, wrong), drop(results, wrong)
            pairs = list(chain.from_iterable(results))
        keys = [pair[0] for pair in pairs]
        made = batch.expand(map(len, results), [pair[1] for pair in pairs], keys)
        return numbered(made, results) if self.step.numbers else made

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: the keys are new."""
        return None


def _check_pairs(results: Sequence[Any]) -> None:
    for result in results:
        check_pair(result)


class SelectKeyOperator(FunctionOperator[SelectKeyNode]):
    """Replaces the key of each record."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace each key."""
        keys, failed = self.run_function(self.node.mapper, batch, keyed=True)
        return without(batch.with_keys(keys), failed)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: the keys are new."""
        return None


class FilterOperator(FunctionOperator[FilterNode]):
    """Keeps the records for which the predicate holds, or those for which it does not."""

    def process_one(self, batch: Batch) -> Batch:
        """Keep the rows that the predicate selects."""
        predicate = self.node.predicate
        mask, failed = self.run_function(predicate, batch, keyed=True)
        mask = truths(mask, failed, failing(batch, self.user_failures(predicate)))
        if self.node.negate:
            mask = [not kept for kept in mask]
            for row in failed:
                mask[row] = False
        return batch if all(mask) else batch.select(mask)


class PeekOperator(FunctionOperator[PeekNode]):
    """Calls an action on each record, and forwards the records unchanged."""

    def process_one(self, batch: Batch) -> Batch:
        """Call the action for its effect."""
        _, failed = self.run_function(self.node.action, batch, keyed=True)
        return without(batch, failed)


class ForeachOperator(FunctionOperator[ForeachNode]):
    """Calls an action on each record, and forwards nothing."""

    replaces: ClassVar[bool] = False

    def process_one(self, batch: Batch) -> None:
        """Call the action for its effect."""
        self.run_function(self.node.action, batch, keyed=True)


class MergeOperator(Operator[MergeNode]):
    """Merges the records of several inputs, in order."""

    def process(self, inputs: Sequence[Batch]) -> Batch:
        """Merge one batch per input."""
        return Batch.merge(inputs, self.step.turns)
