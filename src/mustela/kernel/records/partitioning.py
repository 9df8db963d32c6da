"""The answer of a user's partitioner: one partition, Kafka's own choice, several, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.failures import Failures
from mustela.plan.batch import Batch

__all__ = ["partitions_of", "spread"]

_PLAIN = {int, type(None)}


def partitions_of(chosen: object, topic: str, count: int) -> tuple[int | None, ...]:
    """Return the partitions named by a partitioner's answer.

    Args:
        chosen: A partition, None for Kafka's own choice, or a collection of partitions, which may
            be empty.
        topic: The topic that is written to.
        count: Its number of partitions.

    Raises:
        ValueError: If one of them does not exist.
        TypeError: If the answer is not a partition.

    Example:
        >>> partitions_of({2, 0}, "orders", 3)
        (0, 2)
    """
    if chosen is None:
        return (None,)
    if isinstance(chosen, Iterable) and not isinstance(chosen, str | bytes):
        several: list[Any] = list(chosen)  # pyright: ignore[reportUnknownArgumentType]
        if None in several:
            msg = "the partitioner returned None among the partitions of one record"
            raise TypeError(msg)
        partitions = {partitions_of(partition, topic, count)[0] or 0 for partition in several}
        return tuple(sorted(partitions))
    if not isinstance(chosen, int) or isinstance(chosen, bool):
        msg = f"the partitioner must return a partition, not {type(chosen).__name__}"
        raise TypeError(msg)
    if not 0 <= chosen < count:
        msg = f"the partitioner returned {chosen!r}; {topic!r} has {count} partitions"
        raise ValueError(msg)
    return (chosen,)


def spread(
    partitioner: Callable[..., Any],
    topics: Sequence[str],
    batch: Batch,
    count_of: Callable[[str], int],
    failures: Failures,
    tally: Callable[[str, int], None],
) -> tuple[list[int | None], list[str], Batch]:
    """Call a partitioner once for each row, and return the rows that it does not drop.

    Args:
        partitioner: Called with topic, key, value and the topic's number of partitions.
        topics: The topic of each row.
        batch: The rows.
        count_of: Returns a topic's number of partitions.
        failures: What happens to rows on which the partitioner raises.
        tally: Called with the number of rows that the partitioner drops.

    Returns:
        Partition and topic of each row, and the rows: one for each named partition.
    """
    counts = {topic: count_of(topic) for topic in set(topics)}

    def choose(topic: str, key: Any, value: Any) -> tuple[int | None, ...]:
        count = counts[topic]
        chosen = partitioner(topic, key, value, count)
        if type(chosen) in _PLAIN and (chosen is None or 0 <= chosen < count):
            return (chosen,)
        return partitions_of(chosen, topic, count)

    answers, failed = call_each(
        choose, (topics, batch.keys, batch.values), failing(batch, failures)
    )
    answers, names = drop(answers, failed), drop(list(topics), failed)
    batch = without(batch, failed)
    sizes = list(map(len, answers))
    partitions: list[int | None] = list(chain.from_iterable(answers))
    if set(sizes) <= {1}:
        return partitions, names, batch
    if 0 in sizes:
        tally("dropped_by_partitioner", sizes.count(0))
    index = [row for row, size in enumerate(sizes) for _ in range(size)]
    return partitions, [names[row] for row in index], batch.take(index)
