"""Mustela: the Kafka Streams DSL as a Python library, with Apache Spark as its engine.

What nearly every application needs is here. The rest is in modules by purpose:
`mustela.aggregates`, `mustela.calls`, `mustela.events`, `mustela.processors`, `mustela.schemas`,
`mustela.stores`, `mustela.streams`, `mustela.testing` and `mustela.windows`.

This module imports nothing when it is imported, but has it decided which form of the hot modules
runs (`mustela.compiled`): each name below is fetched from its room on first
use, so code that runs on Spark's executors never pays for the rooms of the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from mustela.compiled import install as _install

if TYPE_CHECKING:
    from mustela.api.context import (
        ProcessorContext as ProcessorContext,
    )
    from mustela.api.join_windows import (
        JoinWindows as JoinWindows,
        StreamJoined as StreamJoined,
    )
    from mustela.api.joined import Joined as Joined, TableJoined as TableJoined
    from mustela.api.options import (
        AutoOffsetReset as AutoOffsetReset,
        Consumed as Consumed,
        Grouped as Grouped,
        Materialized as Materialized,
        Printed as Printed,
        Produced as Produced,
        Repartitioned as Repartitioned,
    )
    from mustela.api.processor import (
        FixedKeyProcessor as FixedKeyProcessor,
        Processor as Processor,
    )
    from mustela.api.stores import (
        Stores as Stores,
    )
    from mustela.api.suppression import Suppressed as Suppressed
    from mustela.api.windows import (
        SessionWindows as SessionWindows,
        SlidingWindows as SlidingWindows,
        TimeWindows as TimeWindows,
    )
    from mustela.client.async_client import AsyncClient as AsyncClient
    from mustela.client.client import Client as Client
    from mustela.dsl.builder import (
        StreamsBuilder as StreamsBuilder,
    )
    from mustela.dsl.globalktable import (
        GlobalKTable as GlobalKTable,
    )
    from mustela.dsl.kstream import (
        KStream as KStream,
    )
    from mustela.dsl.ktable import (
        KTable as KTable,
    )
    from mustela.dsl.routing import (
        Branched as Branched,
    )
    from mustela.dsl.topology_builder import (
        Topology as Topology,
    )
    from mustela.errors import (
        DataError as DataError,
        EnvironmentFault as EnvironmentFault,
        InvariantError as InvariantError,
        MustelaError as MustelaError,
        UsageError as UsageError,
    )
    from mustela.model import (
        FixedKeyRecord as FixedKeyRecord,
        Record as Record,
        Windowed as Windowed,
    )
    from mustela.runtime.app import (
        App as App,
    )
    from mustela.runtime.batch import BatchInput as BatchInput, batch as batch
    from mustela.serdes.base import (
        Serde as Serde,
    )
    from mustela.serdes.rows import (
        Row as Row,
    )
    from mustela.testing.driver import (
        TopologyTestDriver as TopologyTestDriver,
    )

__version__: Final = "0.1.0"

_MODULE_OF: Final[dict[str, str]] = {
    "App": "mustela.runtime.app",
    "AsyncClient": "mustela.client.async_client",
    "AutoOffsetReset": "mustela.api.options",
    "BatchInput": "mustela.runtime.batch",
    "Branched": "mustela.dsl.routing",
    "Client": "mustela.client.client",
    "Consumed": "mustela.api.options",
    "DataError": "mustela.errors",
    "EnvironmentFault": "mustela.errors",
    "FixedKeyProcessor": "mustela.api.processor",
    "FixedKeyRecord": "mustela.model",
    "GlobalKTable": "mustela.dsl.globalktable",
    "Grouped": "mustela.api.options",
    "InvariantError": "mustela.errors",
    "JoinWindows": "mustela.api.join_windows",
    "Joined": "mustela.api.joined",
    "KStream": "mustela.dsl.kstream",
    "KTable": "mustela.dsl.ktable",
    "Materialized": "mustela.api.options",
    "MustelaError": "mustela.errors",
    "Printed": "mustela.api.options",
    "Processor": "mustela.api.processor",
    "ProcessorContext": "mustela.api.context",
    "Produced": "mustela.api.options",
    "Record": "mustela.model",
    "Repartitioned": "mustela.api.options",
    "Row": "mustela.serdes.rows",
    "Serde": "mustela.serdes.base",
    "SessionWindows": "mustela.api.windows",
    "SlidingWindows": "mustela.api.windows",
    "Stores": "mustela.api.stores",
    "StreamJoined": "mustela.api.join_windows",
    "StreamsBuilder": "mustela.dsl.builder",
    "Suppressed": "mustela.api.suppression",
    "TableJoined": "mustela.api.joined",
    "TimeWindows": "mustela.api.windows",
    "Topology": "mustela.dsl.topology_builder",
    "TopologyTestDriver": "mustela.testing.driver",
    "UsageError": "mustela.errors",
    "Windowed": "mustela.model",
    "batch": "mustela.runtime.batch",
}

__all__ = list(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]

_MOVED: Final[dict[str, str]] = {
    name: module
    for module, names in {
        "mustela.aggregates": (
            "Aggregate",
            "ApproxCountDistinct",
            "Avg",
            "Count",
            "CountDistinct",
            "Latest",
            "Max",
            "MaxBy",
            "Min",
            "MinBy",
            "Quantile",
            "Sum",
            "TopN",
        ),
        "mustela.calls": (
            "AsyncCall",
            "AsyncOptions",
            "CallFailedError",
            "CircuitBreaker",
            "RateLimit",
            "RequestReply",
            "Retry",
        ),
        "mustela.events": (
            "AppState",
            "AppTopics",
            "EpochDone",
            "Event",
            "Listener",
            "Restoring",
            "Said",
            "StateChanged",
        ),
        "mustela.processors": (
            "Cancellable",
            "CatchUp",
            "ContextualFixedKeyProcessor",
            "ContextualProcessor",
            "FixedKeyProcessorContext",
            "FixedKeyTimer",
            "ProcessorSupplier",
            "ProcessorWrapper",
            "PunctuationType",
            "RecordMetadata",
            "SideOutput",
            "Tick",
            "TimeDomain",
            "Timer",
            "ValueTransformerWithKey",
            "WrappedProcessor",
        ),
        "mustela.stores": (
            "AggregationWithHeaders",
            "KeyValueStore",
            "Refusal",
            "SessionStore",
            "SessionStoreWithHeaders",
            "StoreBuilder",
            "StoreSupplier",
            "TimestampedKeyValueStore",
            "TimestampedKeyValueStoreWithHeaders",
            "TimestampedWindowStore",
            "TimestampedWindowStoreWithHeaders",
            "Transaction",
            "TransactionRefused",
            "Updated",
            "Upgrade",
            "ValueAndTimestamp",
            "ValueTimestampHeaders",
            "VersionedKeyValueStore",
            "VersionedRecord",
            "WindowStore",
        ),
        "mustela.streams": (
            "BranchedKStream",
            "CogroupedKStream",
            "KGroupedStream",
            "KGroupedTable",
            "ProcessedKStream",
            "SessionWindowedCogroupedKStream",
            "SessionWindowedKStream",
            "TimeWindowedCogroupedKStream",
            "TimeWindowedKStream",
            "TransactedKStream",
        ),
        "mustela.windows": (
            "BufferConfig",
            "EmitStrategy",
            "FailOnInvalidTimestamp",
            "LatePolicy",
            "LogAndSkipOnInvalidTimestamp",
            "SessionWindowedSerde",
            "UnlimitedWindows",
            "UsePartitionTimeOnInvalidTimestamp",
            "WallclockTimestampExtractor",
            "WatermarkStrategy",
            "WindowedSerde",
        ),
        "mustela.testing": (
            "CapturedForward",
            "CapturedPunctuator",
            "CapturedRequest",
            "MockFixedKeyProcessorContext",
            "MockProcessorContext",
        ),
    }.items()
    for name in names
}
"""Names that were here, and where they are now. They are removed in release 0.2."""


_install()


def __getattr__(name: str) -> object:
    """Fetch a public name from the room that owns it, and remember it."""
    module = _MODULE_OF.get(name)
    if module is None and name in _MOVED:
        return _moved(name)
    if module is None and not name.startswith("_"):
        known = import_module("mustela.dsl.elsewhere")
        if name in known.ELSEWHERE:
            raise known.not_here(name)
    if module is None:
        text = f"module 'mustela' has no attribute {name!r}"
        raise AttributeError(text)
    value = globals()[name] = _fetched(module, name)
    return value


def _fetched(module: str, name: str) -> object:
    """Import a name's module without looking for garbage, which took a fifth of the time."""
    from mustela.processes import collection_paused

    with collection_paused():
        return getattr(import_module(module), name)


def _moved(name: str) -> object:
    from warnings import warn

    module = _MOVED[name]
    warn(
        f"mustela.{name} is now {module}.{name}; the old name is removed in release 0.2",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return sorted({*globals(), *_MODULE_OF})
