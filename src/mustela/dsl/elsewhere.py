"""Kafka Streams' names, and what to use instead of them here."""

from __future__ import annotations

from typing import Final

from mustela.api.errors import NoSuchNameError

__all__ = ["ELSEWHERE", "not_here"]

_FUNCTION = "pass a plain function or a lambda"
_SETTING = 'give settings to App("name", settings={...}), or in mustela.toml'
_HANDLER = (
    'write on_error="continue" at a step, or set processing_handler; a handler of your own is a '
    "function of (error, record, context): mustela.handlers"
)
_ANSWER = "from mustela.handlers import CONTINUE, DEAD_LETTER, FAIL, RETRY"
ELSEWHERE: Final = {
    "Aggregator": _FUNCTION,
    "CONTINUE": _ANSWER,
    "DEAD_LETTER": _ANSWER,
    "DeserializationExceptionHandler": _HANDLER,
    "Duration": "use datetime.timedelta",
    "ForeachAction": _FUNCTION,
    "Initializer": _FUNCTION,
    "Instant": "use datetime.datetime with a time zone, or milliseconds",
    "KafkaStreams": "write App(...), add the topology to it, and run it",
    "KeyValue": "return a tuple: (key, value)",
    "KeyValueMapper": _FUNCTION,
    "LogAndContinueExceptionHandler": _HANDLER,
    "LogAndContinueProcessingExceptionHandler": _HANDLER,
    "LogAndFailExceptionHandler": _HANDLER,
    "LogAndFailProcessingExceptionHandler": _HANDLER,
    "Merger": _FUNCTION,
    "Named": 'every step takes name="..."',
    "Predicate": _FUNCTION,
    "ProcessingExceptionHandler": _HANDLER,
    "ProductionExceptionHandler": _HANDLER,
    "Reducer": _FUNCTION,
    "Serdes": "types stand for serdes: key=str, value=int, a dataclass, or your own Serde",
    "StreamPartitioner": _FUNCTION,
    "StreamsConfig": _SETTING,
    "TestInputTopic": 'write driver.create_input_topic("...")',
    "TestOutputTopic": 'write driver.create_output_topic("...")',
    "TestRecord": "write Record(...)",
    "TimestampExtractor": _FUNCTION,
    "ValueJoiner": _FUNCTION,
    "ValueJoinerWithKey": "pass a plain function to join_with_key",
    "ValueMapper": _FUNCTION,
    "ValueMapperWithKey": "pass a plain function to map_values_with_key",
    "Transformer": "derive from Processor, and write stream.process(...)",
    "ValueTransformer": "derive from FixedKeyProcessor, and write stream.process_values(...)",
}
"""What to write, by name. Several are not needed because functions need no interfaces here."""


def not_here(name: str) -> NoSuchNameError:
    """Return the error for a name of Kafka Streams that is not needed here.

    Example:
        >>> print(str(not_here("Serdes")).splitlines()[0])
        mustela has no 'Serdes'
    """
    return NoSuchNameError(f"mustela has no {name!r}", fix=ELSEWHERE[name], fields={"asked": name})
