"""Mustela: the Kafka Streams DSL as a Python library, with Apache Spark as its engine.

This module is a facade. It imports nothing when it is imported: each name below is fetched from its
room on first use, so code that runs on Spark's executors never pays for the rooms of the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mustela.dsl.aggregates import (
        Aggregate,
        ApproxCountDistinct,
        Avg,
        Count,
        CountDistinct,
        Latest,
        Max,
        MaxBy,
        Min,
        MinBy,
        Quantile,
        Sum,
        TopN,
    )
    from mustela.dsl.builder import StreamsBuilder
    from mustela.dsl.cogroup import (
        CogroupedKStream,
        SessionWindowedCogroupedKStream,
        TimeWindowedCogroupedKStream,
    )
    from mustela.dsl.foreign_key_join import TableJoined
    from mustela.dsl.globalktable import GlobalKTable
    from mustela.dsl.grouped import KGroupedStream
    from mustela.dsl.grouped_table import KGroupedTable
    from mustela.dsl.join_windows import JoinWindows, StreamJoined
    from mustela.dsl.kstream import KStream
    from mustela.dsl.ktable import KTable
    from mustela.dsl.options import (
        AutoOffsetReset,
        Consumed,
        Grouped,
        Materialized,
        Printed,
        Produced,
        Repartitioned,
    )
    from mustela.dsl.processed import ProcessedKStream
    from mustela.dsl.processing import SideOutput
    from mustela.dsl.routing import Branched, BranchedKStream
    from mustela.dsl.stores import StoreBuilder, Stores, StoreSupplier
    from mustela.dsl.stream_table_join import Joined
    from mustela.dsl.suppression import BufferConfig, Suppressed
    from mustela.dsl.topology_builder import Topology
    from mustela.dsl.transacted import TransactedKStream
    from mustela.dsl.upgrades import Upgrade
    from mustela.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream
    from mustela.dsl.windows import (
        EmitStrategy,
        SessionWindows,
        SlidingWindows,
        TimeWindows,
        UnlimitedWindows,
    )
    from mustela.errors import (
        DataError,
        EnvironmentFault,
        InvariantError,
        MustelaError,
        UsageError,
    )
    from mustela.model import FixedKeyRecord, Record, Windowed
    from mustela.runtime.app import App
    from mustela.runtime.app_topics import AppTopics
    from mustela.runtime.events import (
        AppState,
        EpochDone,
        Event,
        Listener,
        Restoring,
        Said,
        StateChanged,
    )
    from mustela.serdes.base import Serde
    from mustela.serdes.rows import Row
    from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
    from mustela.state.kinds.headers import AggregationWithHeaders, ValueTimestampHeaders
    from mustela.state.kinds.key_value import (
        KeyValueStore,
        TimestampedKeyValueStore,
        TimestampedKeyValueStoreWithHeaders,
        ValueAndTimestamp,
    )
    from mustela.state.kinds.session_store import SessionStore, SessionStoreWithHeaders
    from mustela.state.kinds.versioned_store import VersionedKeyValueStore, VersionedRecord
    from mustela.state.kinds.window_store import (
        TimestampedWindowStore,
        TimestampedWindowStoreWithHeaders,
        WindowStore,
    )
    from mustela.state.transaction import Refusal, Transaction, TransactionRefused
    from mustela.testing.driver import TopologyTestDriver
    from mustela.testing.mock_context import (
        CapturedForward,
        CapturedPunctuator,
        CapturedRequest,
        MockFixedKeyProcessorContext,
        MockProcessorContext,
    )
    from mustela.topology.async_calls import (
        AsyncCall,
        AsyncOptions,
        CallFailedError,
        CircuitBreaker,
        RateLimit,
        Retry,
    )
    from mustela.topology.processor_api import (
        ContextualFixedKeyProcessor,
        ContextualProcessor,
        FixedKeyProcessor,
        Processor,
        ProcessorSupplier,
    )
    from mustela.topology.processor_context import (
        FixedKeyProcessorContext,
        ProcessorContext,
        RecordMetadata,
    )
    from mustela.topology.processor_wrapper import ProcessorWrapper, WrappedProcessor
    from mustela.topology.request_reply import RequestReply
    from mustela.topology.schedule import CatchUp
    from mustela.topology.scheduled import Tick
    from mustela.topology.timers import (
        Cancellable,
        FixedKeyTimer,
        PunctuationType,
        TimeDomain,
        Timer,
    )
    from mustela.topology.timestamps import (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
    from mustela.topology.update import Updated
    from mustela.topology.value_transformer import ValueTransformerWithKey
    from mustela.topology.watermarks import LatePolicy, WatermarkStrategy

__all__ = [
    "Aggregate",
    "AggregationWithHeaders",
    "App",
    "AppState",
    "AppTopics",
    "ApproxCountDistinct",
    "AsyncCall",
    "AsyncOptions",
    "AutoOffsetReset",
    "Avg",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CallFailedError",
    "Cancellable",
    "CapturedForward",
    "CapturedPunctuator",
    "CapturedRequest",
    "CatchUp",
    "CircuitBreaker",
    "CogroupedKStream",
    "Consumed",
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "Count",
    "CountDistinct",
    "DataError",
    "EmitStrategy",
    "EnvironmentFault",
    "EpochDone",
    "Event",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "FixedKeyTimer",
    "GlobalKTable",
    "Grouped",
    "InvariantError",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "LatePolicy",
    "Latest",
    "Listener",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Max",
    "MaxBy",
    "Min",
    "MinBy",
    "MockFixedKeyProcessorContext",
    "MockProcessorContext",
    "MustelaError",
    "Printed",
    "ProcessedKStream",
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "ProcessorWrapper",
    "Produced",
    "PunctuationType",
    "Quantile",
    "RateLimit",
    "Record",
    "RecordMetadata",
    "Refusal",
    "Repartitioned",
    "RequestReply",
    "Restoring",
    "Retry",
    "Row",
    "Said",
    "Serde",
    "SessionStore",
    "SessionStoreWithHeaders",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SideOutput",
    "SlidingWindows",
    "StateChanged",
    "StoreBuilder",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "Sum",
    "Suppressed",
    "TableJoined",
    "Tick",
    "TimeDomain",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "Timer",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "TopN",
    "Topology",
    "TopologyTestDriver",
    "TransactedKStream",
    "Transaction",
    "TransactionRefused",
    "UnlimitedWindows",
    "Updated",
    "Upgrade",
    "UsageError",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "ValueTransformerWithKey",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WallclockTimestampExtractor",
    "WatermarkStrategy",
    "WindowStore",
    "Windowed",
    "WindowedSerde",
    "WrappedProcessor",
]

__version__: Final = "0.1.0"

_MODULE_OF: Final[dict[str, str]] = {
    "Aggregate": "mustela.dsl.aggregates",
    "AggregationWithHeaders": "mustela.state.kinds.headers",
    "App": "mustela.runtime.app",
    "AppState": "mustela.runtime.events",
    "AppTopics": "mustela.runtime.app_topics",
    "ApproxCountDistinct": "mustela.dsl.aggregates",
    "AsyncCall": "mustela.topology.async_calls",
    "AsyncOptions": "mustela.topology.async_calls",
    "AutoOffsetReset": "mustela.dsl.options",
    "Avg": "mustela.dsl.aggregates",
    "Branched": "mustela.dsl.routing",
    "BranchedKStream": "mustela.dsl.routing",
    "BufferConfig": "mustela.dsl.suppression",
    "CallFailedError": "mustela.topology.async_calls",
    "Cancellable": "mustela.topology.timers",
    "CapturedForward": "mustela.testing.mock_context",
    "CapturedPunctuator": "mustela.testing.mock_context",
    "CapturedRequest": "mustela.testing.mock_context",
    "CatchUp": "mustela.topology.schedule",
    "CircuitBreaker": "mustela.topology.async_calls",
    "CogroupedKStream": "mustela.dsl.cogroup",
    "Consumed": "mustela.dsl.options",
    "ContextualFixedKeyProcessor": "mustela.topology.processor_api",
    "ContextualProcessor": "mustela.topology.processor_api",
    "Count": "mustela.dsl.aggregates",
    "CountDistinct": "mustela.dsl.aggregates",
    "DataError": "mustela.errors",
    "EmitStrategy": "mustela.dsl.windows",
    "EnvironmentFault": "mustela.errors",
    "EpochDone": "mustela.runtime.events",
    "Event": "mustela.runtime.events",
    "FailOnInvalidTimestamp": "mustela.topology.timestamps",
    "FixedKeyProcessor": "mustela.topology.processor_api",
    "FixedKeyProcessorContext": "mustela.topology.processor_context",
    "FixedKeyRecord": "mustela.model",
    "FixedKeyTimer": "mustela.topology.timers",
    "GlobalKTable": "mustela.dsl.globalktable",
    "Grouped": "mustela.dsl.options",
    "InvariantError": "mustela.errors",
    "JoinWindows": "mustela.dsl.join_windows",
    "Joined": "mustela.dsl.stream_table_join",
    "KGroupedStream": "mustela.dsl.grouped",
    "KGroupedTable": "mustela.dsl.grouped_table",
    "KStream": "mustela.dsl.kstream",
    "KTable": "mustela.dsl.ktable",
    "KeyValueStore": "mustela.state.kinds.key_value",
    "LatePolicy": "mustela.topology.watermarks",
    "Latest": "mustela.dsl.aggregates",
    "Listener": "mustela.runtime.events",
    "LogAndSkipOnInvalidTimestamp": "mustela.topology.timestamps",
    "Materialized": "mustela.dsl.options",
    "Max": "mustela.dsl.aggregates",
    "MaxBy": "mustela.dsl.aggregates",
    "Min": "mustela.dsl.aggregates",
    "MinBy": "mustela.dsl.aggregates",
    "MockFixedKeyProcessorContext": "mustela.testing.mock_context",
    "MockProcessorContext": "mustela.testing.mock_context",
    "MustelaError": "mustela.errors",
    "Printed": "mustela.dsl.options",
    "ProcessedKStream": "mustela.dsl.processed",
    "Processor": "mustela.topology.processor_api",
    "ProcessorContext": "mustela.topology.processor_context",
    "ProcessorSupplier": "mustela.topology.processor_api",
    "ProcessorWrapper": "mustela.topology.processor_wrapper",
    "Produced": "mustela.dsl.options",
    "PunctuationType": "mustela.topology.timers",
    "Quantile": "mustela.dsl.aggregates",
    "RateLimit": "mustela.topology.async_calls",
    "Record": "mustela.model",
    "RecordMetadata": "mustela.topology.processor_context",
    "Refusal": "mustela.state.transaction",
    "Repartitioned": "mustela.dsl.options",
    "RequestReply": "mustela.topology.request_reply",
    "Restoring": "mustela.runtime.events",
    "Retry": "mustela.topology.async_calls",
    "Row": "mustela.serdes.rows",
    "Said": "mustela.runtime.events",
    "Serde": "mustela.serdes.base",
    "SessionStore": "mustela.state.kinds.session_store",
    "SessionStoreWithHeaders": "mustela.state.kinds.session_store",
    "SessionWindowedCogroupedKStream": "mustela.dsl.cogroup",
    "SessionWindowedKStream": "mustela.dsl.windowed",
    "SessionWindowedSerde": "mustela.serdes.windowed",
    "SessionWindows": "mustela.dsl.windows",
    "SideOutput": "mustela.dsl.processing",
    "SlidingWindows": "mustela.dsl.windows",
    "StateChanged": "mustela.runtime.events",
    "StoreBuilder": "mustela.dsl.stores",
    "StoreSupplier": "mustela.dsl.stores",
    "Stores": "mustela.dsl.stores",
    "StreamJoined": "mustela.dsl.join_windows",
    "StreamsBuilder": "mustela.dsl.builder",
    "Sum": "mustela.dsl.aggregates",
    "Suppressed": "mustela.dsl.suppression",
    "TableJoined": "mustela.dsl.foreign_key_join",
    "Tick": "mustela.topology.scheduled",
    "TimeDomain": "mustela.topology.timers",
    "TimeWindowedCogroupedKStream": "mustela.dsl.cogroup",
    "TimeWindowedKStream": "mustela.dsl.windowed",
    "TimeWindows": "mustela.dsl.windows",
    "Timer": "mustela.topology.timers",
    "TimestampedKeyValueStore": "mustela.state.kinds.key_value",
    "TimestampedKeyValueStoreWithHeaders": "mustela.state.kinds.key_value",
    "TimestampedWindowStore": "mustela.state.kinds.window_store",
    "TimestampedWindowStoreWithHeaders": "mustela.state.kinds.window_store",
    "TopN": "mustela.dsl.aggregates",
    "Topology": "mustela.dsl.topology_builder",
    "TopologyTestDriver": "mustela.testing.driver",
    "TransactedKStream": "mustela.dsl.transacted",
    "Transaction": "mustela.state.transaction",
    "TransactionRefused": "mustela.state.transaction",
    "UnlimitedWindows": "mustela.dsl.windows",
    "Updated": "mustela.topology.update",
    "Upgrade": "mustela.dsl.upgrades",
    "UsageError": "mustela.errors",
    "UsePartitionTimeOnInvalidTimestamp": "mustela.topology.timestamps",
    "ValueAndTimestamp": "mustela.state.kinds.key_value",
    "ValueTimestampHeaders": "mustela.state.kinds.headers",
    "ValueTransformerWithKey": "mustela.topology.value_transformer",
    "VersionedKeyValueStore": "mustela.state.kinds.versioned_store",
    "VersionedRecord": "mustela.state.kinds.versioned_store",
    "WallclockTimestampExtractor": "mustela.topology.timestamps",
    "WatermarkStrategy": "mustela.topology.watermarks",
    "WindowStore": "mustela.state.kinds.window_store",
    "Windowed": "mustela.model",
    "WindowedSerde": "mustela.serdes.windowed",
    "WrappedProcessor": "mustela.topology.processor_wrapper",
}


def __getattr__(name: str) -> object:
    """Fetch a public name from the room that owns it, and remember it."""
    module = _MODULE_OF.get(name)
    if module is None and not name.startswith("_"):
        known = import_module("mustela.dsl.elsewhere")
        if name in known.ELSEWHERE:
            raise known.not_here(name)
    if module is None:
        text = f"module 'mustela' has no attribute {name!r}"
        raise AttributeError(text)
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return sorted({*globals(), *_MODULE_OF})
