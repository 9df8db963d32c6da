"""What to answer if a part of a topology is asked for a step that it does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mustela.api.called import take_calls
from mustela.api.errors import NoSuchStepError
from mustela.api.names import snake_case
from mustela.api.origin import user_origin

__all__ = ["VerbStage"]


class _Way(NamedTuple):
    """The way from a kind of stage to another one, which has the requested step.

    Attributes:
        to: The kind that has it.
        why: Why the first kind does not have it.
        fix: What to write; ``{}`` stands for the step.
    """

    to: str
    why: str
    fix: str


_LOOKED_UP = "a global table can only be looked up: its changes produce no results"
_READ = "read the topic with table() or stream() instead, or join a stream with this table"
_RECORDS = "a table has rows; its stream of changes has records"
_BY_KEY = "records are grouped by key before they are folded"
_FOLDED = "grouped records, and records in windows, have to be folded into a table first"
_OF_TABLE = "fold it first, and continue with the table: .count(...).{}(...)"
_OF_CHANGES = "fold it first, and continue with the changes: .count(...).to_stream().{}(...)"
_TABLE = _Way("KTable", _FOLDED, _OF_TABLE)
_STREAM = _Way("KStream", _FOLDED, _OF_CHANGES)
_AGGREGATED = "each stream of a cogroup has an aggregator, so aggregate is the only fold"
_COGROUPED = (
    _Way("KGroupedStream", _AGGREGATED, "write .aggregate(initializer, ...)"),
    _Way("KTable", _FOLDED, "fold it first, and continue with the table: .aggregate(...).{}(...)"),
    _Way("KStream", _FOLDED, ".aggregate(...).to_stream().{}(...)"),
)
_FINAL = _Way(
    "TimeWindowedKStream",
    "as in Kafka Streams, windows of a cogroup are sent on with each update",
    "hold the result back: .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))",
)
_WAYS = {
    "StreamsBuilder": (
        _Way("KStream", "first a topic has to be read", "builder.stream(...).{}(...)"),
        _Way("KTable", "first a topic has to be read", "builder.table(...).{}(...)"),
    ),
    "BranchedKStream": (
        _Way(
            "KStream",
            "a split stream is several streams",
            "end the split, and use one of its streams: .default_branch()[name].{}(...)",
        ),
    ),
    "GlobalKTable": (_Way("KTable", _LOOKED_UP, _READ), _Way("KStream", _LOOKED_UP, _READ)),
    "KTable": (
        _Way("KStream", _RECORDS, "table.to_stream().{}(...)"),
        _Way("KGroupedTable", _BY_KEY, "table.group_by(...).{}(...)"),
        _Way("KGroupedStream", _RECORDS, "table.to_stream().group_by_key().{}(...)"),
    ),
    "KStream": (
        _Way("KGroupedStream", _BY_KEY, "stream.group_by_key().{}(...)"),
        _Way(
            "KTable",
            "a stream has records, not rows",
            "stream.to_table(...).{}(...), or aggregate it first",
        ),
    ),
    "KGroupedStream": (
        _Way("TimeWindowedKStream", "only windows close", ".windowed_by(...).{}(...)"),
        _TABLE,
        _STREAM,
    ),
    "KGroupedTable": (
        _Way(
            "KGroupedStream",
            "rows stay until they are changed: they belong to no moment",
            "table.to_stream().group_by(...).{}(...)",
        ),
        _TABLE,
        _STREAM,
    ),
    "TimeWindowedKStream": (_TABLE, _STREAM),
    "SessionWindowedKStream": (_TABLE, _STREAM),
    "CogroupedKStream": _COGROUPED,
    "TimeWindowedCogroupedKStream": (_FINAL, *_COGROUPED),
    "SessionWindowedCogroupedKStream": (_FINAL, *_COGROUPED),
}
_GONE = {
    ("KStream", "branch"): "stream.split().branch(...), and .default_branch() at the end",
    ("KStream", "through"): "stream.repartition(), or to(topic) and another builder.stream(topic)",
    ("KStream", "transform"): "stream.process(...)",
    ("KStream", "flat_transform"): "stream.process(...)",
    ("KStream", "transform_values"): "stream.process_values(...)",
    ("KStream", "flat_transform_values"): "stream.process_values(...)",
    ("KStream", "right_join"): "swap the sides: other.left_join(this, joiner)",
    ("KTable", "right_join"): "swap the sides: other.left_join(this, joiner)",
    ("KStream", "windowed_by"): "stream.group_by_key().windowed_by(...)",
}
"""Steps that Kafka Streams once had, or that users look for in the wrong place."""


class VerbStage:
    """A part of a topology that steps can follow; points to steps that it does not have."""

    def __init_subclass__(cls) -> None:
        """Make the steps of each kind of stage accept their options as in Kafka Streams."""
        super().__init_subclass__()
        take_calls(cls)

    if not TYPE_CHECKING:  # type checkers know which steps there are

        def __getattr__(self, name: str) -> Any:
            """Say what may be meant."""
            if name.startswith("_"):
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            raise _no_such_step(type(self), self._stage_name(), name)

    def _stage_name(self) -> str:
        """Return the name by which the user knows this stage; empty if there is only one."""
        return ""


def _no_such_step(kind: type[VerbStage], stage: str, step: str) -> NoSuchStepError:
    snake = snake_case(step)
    having = {other.__name__ for other in _kinds(VerbStage) if hasattr(other, snake)}
    names = [part.__name__ for part in kind.__mro__]
    why = fix = None
    way = next(
        (way for name in names for way in _WAYS.get(name, ()) if way.to in having),
        None,
    )
    if kind.__name__ in having:
        fix = f"write {snake}"
    elif gone := next((_GONE[name, snake] for name in names if (name, snake) in _GONE), None):
        fix = gone
    elif way is not None:
        why, fix = way.why, way.fix.format(snake)
    elif close := difflib.get_close_matches(
        snake, [name for part in kind.__mro__ for name in vars(part) if name[0] != "_"], n=1
    ):
        fix = f"did you mean {close[0]}?"
    return NoSuchStepError(
        f"{kind.__name__} {f'{stage!r} ' if stage else ''}has no {step!r}",
        at=user_origin(),
        why=why,
        fix=fix,
        fields={"step": stage, "asked": step},
    )


def _kinds(kind: type) -> Iterator[type]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from _kinds(narrower)
