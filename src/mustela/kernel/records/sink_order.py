"""Rows of one topic leave in the order of their source records, whichever sinks wrote them.

Each sink keeps the order of its own rows of a key. Rows of several sinks are interleaved by the
records that they come from, and rows of one record by turns, as Kafka Streams goes through the
steps. Nothing is sorted for a topic with one sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from operator import le
from typing import Any

from mustela.kernel.core.output import Place, SinkRows
from mustela.model import Headers
from mustela.plan.batch import SOURCE_ORDER, Order

__all__ = ["in_record_order", "places_of"]


def places_of(order: Sequence[Order] | None, turns: Sequence[int]) -> list[Place] | None:
    """Return the sort keys of a sink's rows; None if no other sink writes its topic.

    Args:
        order: The order of its rows.
        turns: As in `mustela.plan.step.Step`.

    Example:
        >>> places_of([(7, 0, 0, 1), (7, 0, 0, 2, 3, 0)], (1, 2))
        [(7, 0, 0, 1, 1, (), 2), (7, 0, 0, 2, 1, (3, 0), 2)]
    """
    if not turns or order is None:
        return None
    maker, own = turns
    size = SOURCE_ORDER
    return [(*place[:size], maker, place[size:], own) for place in order]


def in_record_order(parts: list[SinkRows], *, spread: bool = False) -> list[SinkRows]:
    """Return the rows, sorted by their source records for topics with several sinks.

    Args:
        parts: Rows of sinks.
        spread: Whether these are the rows of all stages, not of part of one.
    """
    if all(part.places is None for part in parts):
        return parts
    placed = [part for part in parts if part.places is not None]
    together: dict[str, list[SinkRows]] = {}
    for part in placed:
        together.setdefault(part.topic if isinstance(part.topic, str) else "", []).append(part)
    if "" in together:  # a function names the topics, and may name any
        together = {"": placed}
    merged = [
        _merged(some, keep=not spread and any(part.spread for part in some))
        for some in together.values()
    ]
    return [part for part in parts if part.places is None] + merged


def _merged(parts: list[SinkRows], *, keep: bool) -> SinkRows:
    """Return the rows of several sinks as those of one; with their places if ``keep``."""
    first = parts[0]
    columns = [_never_back(part) for part in parts]
    places = list(chain.from_iterable(columns))
    one_topic = all(part.topic == first.topic for part in parts) and isinstance(first.topic, str)
    rows = SinkRows(
        step=first.step,
        topic=first.topic if one_topic else list(chain.from_iterable(map(_topics, parts))),
        keys=list(chain.from_iterable(part.keys for part in parts)),
        values=list(chain.from_iterable(part.values for part in parts)),
        timestamps=list(chain.from_iterable(part.timestamps for part in parts)),
        headers=_filled([part.headers for part in parts], parts, ()),
        partitions=_filled([part.partitions for part in parts], parts, None),
        places=places if keep else None,
        steps=list(chain.from_iterable(map(_steps, parts))),
        spread=keep,
    )
    if all(map(le, places, islice(places, 1, None))):
        return rows
    index = sorted(range(len(places)), key=places.__getitem__)

    def pick(column: Any) -> Any:
        return [column[row] for row in index] if isinstance(column, list) else column

    return SinkRows(
        step=rows.step,
        topic=pick(rows.topic),
        keys=pick(rows.keys),
        values=pick(rows.values),
        timestamps=pick(rows.timestamps),
        headers=pick(rows.headers),
        partitions=pick(rows.partitions),
        places=pick(rows.places),
        steps=pick(rows.steps),
        spread=keep,
    )


def _steps(part: SinkRows) -> list[str]:
    return [part.step] * len(part) if part.steps is None else part.steps


def _never_back(part: SinkRows) -> list[Place]:
    """Return the places of rows, none of them before that of an earlier row of its key.

    A timer's row has the time of the timer, which may be before that of an earlier record of the
    key.
    """
    places = part.places
    assert places is not None
    if all(map(le, places, islice(places, 1, None))):
        return places
    last: dict[bytes | None, Place] = {}
    raised: list[Place] = []
    for key, place in zip(part.keys, places, strict=True):
        place = max(place, last.get(key, place))
        last[key] = place
        raised.append(place)
    return raised


def _topics(part: SinkRows) -> list[str]:
    return [part.topic] * len(part) if isinstance(part.topic, str) else part.topic


def _filled(columns: Sequence[Any], parts: Sequence[SinkRows], missing: Headers | None) -> Any:
    """Return a column of all parts, padded where a part has none; None if none has any."""
    if all(column is None for column in columns):
        return None
    pairs = zip(columns, parts, strict=True)
    return list(chain.from_iterable([missing] * len(part) if c is None else c for c, part in pairs))
