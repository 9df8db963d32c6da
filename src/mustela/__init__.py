"""Mustela: the Kafka Streams DSL as a Python library, with Apache Spark as its engine.

This module is a facade. It imports nothing when it is imported: each name below is fetched from its
room on first use, so code that runs on Spark's executors never pays for the rooms of the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    from mustela.dsl.routing import Branched, BranchedKStream
    from mustela.dsl.stores import StoreBuilder, Stores, StoreSupplier
    from mustela.dsl.stream_table_join import Joined
    from mustela.dsl.suppression import BufferConfig, Suppressed
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
    from mustela.model import Record, Windowed
    from mustela.runtime.app import App
    from mustela.serdes.base import Serde
    from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
    from mustela.state.kinds.key_value import (
        KeyValueStore,
        TimestampedKeyValueStore,
        ValueAndTimestamp,
    )
    from mustela.state.kinds.session_store import SessionStore
    from mustela.state.kinds.versioned_store import VersionedKeyValueStore, VersionedRecord
    from mustela.state.kinds.window_store import TimestampedWindowStore, WindowStore
    from mustela.testing.driver import TopologyTestDriver
    from mustela.topology.timestamps import (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
    from mustela.topology.watermarks import LatePolicy, WatermarkStrategy

__all__ = [
    "App",
    "AutoOffsetReset",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Consumed",
    "DataError",
    "EmitStrategy",
    "EnvironmentFault",
    "FailOnInvalidTimestamp",
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
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "MustelaError",
    "Printed",
    "Produced",
    "Record",
    "Repartitioned",
    "Serde",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SlidingWindows",
    "StoreBuilder",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "TimestampedKeyValueStore",
    "TimestampedWindowStore",
    "TopologyTestDriver",
    "UnlimitedWindows",
    "UsageError",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WallclockTimestampExtractor",
    "WatermarkStrategy",
    "WindowStore",
    "Windowed",
    "WindowedSerde",
]

__version__: Final = "0.1.0"

_MODULE_OF: Final[dict[str, str]] = {
    "App": "mustela.runtime.app",
    "AutoOffsetReset": "mustela.dsl.options",
    "Branched": "mustela.dsl.routing",
    "BranchedKStream": "mustela.dsl.routing",
    "BufferConfig": "mustela.dsl.suppression",
    "CogroupedKStream": "mustela.dsl.cogroup",
    "Consumed": "mustela.dsl.options",
    "DataError": "mustela.errors",
    "EmitStrategy": "mustela.dsl.windows",
    "EnvironmentFault": "mustela.errors",
    "FailOnInvalidTimestamp": "mustela.topology.timestamps",
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
    "LogAndSkipOnInvalidTimestamp": "mustela.topology.timestamps",
    "Materialized": "mustela.dsl.options",
    "MustelaError": "mustela.errors",
    "Printed": "mustela.dsl.options",
    "Produced": "mustela.dsl.options",
    "Record": "mustela.model",
    "Repartitioned": "mustela.dsl.options",
    "Serde": "mustela.serdes.base",
    "SessionStore": "mustela.state.kinds.session_store",
    "SessionWindowedCogroupedKStream": "mustela.dsl.cogroup",
    "SessionWindowedKStream": "mustela.dsl.windowed",
    "SessionWindowedSerde": "mustela.serdes.windowed",
    "SessionWindows": "mustela.dsl.windows",
    "SlidingWindows": "mustela.dsl.windows",
    "StoreBuilder": "mustela.dsl.stores",
    "StoreSupplier": "mustela.dsl.stores",
    "Stores": "mustela.dsl.stores",
    "StreamJoined": "mustela.dsl.join_windows",
    "StreamsBuilder": "mustela.dsl.builder",
    "Suppressed": "mustela.dsl.suppression",
    "TableJoined": "mustela.dsl.foreign_key_join",
    "TimeWindowedCogroupedKStream": "mustela.dsl.cogroup",
    "TimeWindowedKStream": "mustela.dsl.windowed",
    "TimeWindows": "mustela.dsl.windows",
    "TimestampedKeyValueStore": "mustela.state.kinds.key_value",
    "TimestampedWindowStore": "mustela.state.kinds.window_store",
    "TopologyTestDriver": "mustela.testing.driver",
    "UnlimitedWindows": "mustela.dsl.windows",
    "UsageError": "mustela.errors",
    "UsePartitionTimeOnInvalidTimestamp": "mustela.topology.timestamps",
    "ValueAndTimestamp": "mustela.state.kinds.key_value",
    "VersionedKeyValueStore": "mustela.state.kinds.versioned_store",
    "VersionedRecord": "mustela.state.kinds.versioned_store",
    "WallclockTimestampExtractor": "mustela.topology.timestamps",
    "WatermarkStrategy": "mustela.topology.watermarks",
    "WindowStore": "mustela.state.kinds.window_store",
    "Windowed": "mustela.model",
    "WindowedSerde": "mustela.serdes.windowed",
}


def __getattr__(name: str) -> object:
    """Fetch a public name from the room that owns it, and remember it."""
    module = _MODULE_OF.get(name)
    if module is None:
        text = f"module 'mustela' has no attribute {name!r}"
        raise AttributeError(text)
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return sorted({*globals(), *_MODULE_OF})
