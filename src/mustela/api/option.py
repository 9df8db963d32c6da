"""What the options of steps share: their answers to users who write them as in Java."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from mustela.api.called import answer_calls, bad_call
from mustela.api.errors import NoSuchStepError
from mustela.api.names import snake_case
from mustela.api.origin import user_origin

__all__ = ["Answering", "Option"]

_KEY_VALUE = "write {}(key=..., value=...), with types or serdes"
_SIZED = "write {}(size=timedelta(...), grace=timedelta(0)), or with another grace"
_GAP = "write {}(inactivity_gap=timedelta(...), grace=timedelta(0)), or with another grace"
_SPAN = "write {}(time_difference=timedelta(...), grace=timedelta(0)), or with another grace"
_APART = "write JoinWindows.of_time_difference(timedelta(...), grace=timedelta(...))"
_KAFKA = {
    "as_": {"Materialized": 'write Materialized(store="...")', "": 'write {}(name="...")'},
    "with_": {"": _KEY_VALUE},
    "of": {
        "JoinWindows": _APART,
        "SessionWindows": _GAP,
        "SlidingWindows": _SPAN,
        "TimeWindows": _SIZED,
        "UnlimitedWindows": "write UnlimitedWindows()",
    },
    "of_time_difference_and_grace": {"JoinWindows": _APART, "": _SPAN},
    "of_time_difference_with_no_grace": {"JoinWindows": _APART, "": _SPAN},
    "of_size_and_grace": {"": _SIZED},
    "of_size_with_no_grace": {"": _SIZED},
    "of_inactivity_gap_and_grace": {"": _GAP},
    "of_inactivity_gap_with_no_grace": {"": _GAP},
    "advance_by": {"": "write {}(size=..., advance=timedelta(...), grace=...)"},
    "grace": {"": "write {}(..., grace=timedelta(...))"},
    "before": {"": "write {}(before=timedelta(...), after=..., grace=...)"},
    "after": {"": "write {}(before=..., after=timedelta(...), grace=...)"},
    "key_serde": {"": "write {}(key=...), with a type or a serde"},
    "with_key_serde": {"": "write {}(key=...), with a type or a serde"},
    "with_value_serde": {"": "write {}(value=...), with a type or a serde"},
    "with_other_value_serde": {"": "write {}(other_value=...), with a type or a serde"},
    "with_name": {"": 'write {}(name="...")'},
    "with_store_name": {"": 'write {}(store="...")'},
    "with_caching_disabled": {"": "write {}(caching=False)"},
    "with_caching_enabled": {"": "leave it out: changes within an epoch are combined"},
    "with_logging_disabled": {"": "write {}(logged=False)"},
    "with_logging_enabled": {"": "write {}(topic_config={{...}})"},
    "with_retention": {"": "write {}(retention=timedelta(...))"},
    "with_offset_reset_policy": {"": 'write {}(auto_offset_reset="earliest")'},
    "with_timestamp_extractor": {"": "write {}(timestamp_extractor=...)"},
    "with_stream_partitioner": {"": "write {}(partitioner=...)"},
    "stream_partitioner": {"": "write {}(partitioner=...)"},
    "with_number_of_partitions": {"": "write {}(partitions=...)"},
    "with_partitioner": {"": "write {}(partitioner=...)"},
    "with_other_partitioner": {"": "leave it out: lanes need no partitions"},
    "with_this_store_supplier": {"": "write {}(this_store=...)"},
    "with_other_store_supplier": {"": "write {}(other_store=...)"},
    "with_function": {"": "write {}(function=...)"},
    "with_consumer": {"": "write {}(consumer=...)"},
    "add_state_listener": {"App": "write app.add_listener(...): it receives states too"},
    "clean_up": {"App": "run: mustela reset MODULE:APP"},
    "set_state_listener": {"App": "write app.add_listener(...): it receives states too"},
    "set_uncaught_exception_handler": {
        "App": "look at app.error when it has ended, or set processing_handler"
    },
    "with_grace_period": {"": "give grace= where the windows are made"},
}
"""By Kafka Streams' method in snake_case, then by class: what to write; ``{}`` is the class."""


def _told(kind: type, asked: str) -> NoSuchStepError | AttributeError:
    """Return the error for a method that an option does not have."""
    snake = snake_case(asked)
    by_class = _KAFKA.get(snake, {})
    fix = by_class.get(kind.__name__) or by_class.get("")
    if fix is None and snake != asked and hasattr(kind, snake):
        fix = f"write {kind.__name__}.{snake}"
    if fix is None:
        return AttributeError(f"{kind.__name__!r} has no attribute {asked!r}", name=asked, obj=kind)
    return NoSuchStepError(
        f"{kind.__name__} has no {asked!r}",
        at=user_origin(),
        why="options are keywords here" if by_class and issubclass(kind, Option) else None,
        fix=fix.format(kind.__name__),
        fields={"step": kind.__name__, "asked": asked},
    )


if TYPE_CHECKING:

    class Answering:
        """The base of classes that users create and whose methods they call."""

    class Option(Answering):
        """The base of the classes of options."""

else:

    class _AnsweringType(type):
        """Answers a Java-style call with what to write instead."""

        def __call__(cls, *given: Any, **named: Any) -> Any:
            """Make an instance, or say what the class takes."""
            signature = inspect.signature(cls.__init__)
            try:
                signature.bind(None, *given, **named)
            except TypeError as error:
                raise bad_call(cls.__name__, signature, given, named, reason=str(error)) from None
            return super().__call__(*given, **named)

        def __getattr__(cls, name: str) -> Any:
            """Say what to write instead."""
            if name.startswith("_"):
                msg = f"type object {cls.__name__!r} has no attribute {name!r}"
                raise AttributeError(msg)
            raise _told(cls, name)

    class Answering(metaclass=_AnsweringType):
        """The base of classes that users create and whose methods they call."""

        __slots__ = ()

        def __init_subclass__(cls) -> None:
            """Make invalid calls of its methods say what to write instead."""
            super().__init_subclass__()
            answer_calls(cls)

        def __getattr__(self, name: str) -> Any:
            """Say what to write instead."""
            if name.startswith("_"):
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            raise _told(type(self), name)

    class Option(Answering):
        """The base of the classes of options."""

        __slots__ = ()
