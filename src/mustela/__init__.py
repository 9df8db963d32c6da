"""Mustela: the Kafka Streams DSL as a Python library, with Apache Spark as its engine.

This module is a facade. It imports nothing when it is imported: each name below is fetched from its
room on first use, so code that runs on Spark's executors never pays for the rooms of the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mustela.dsl.builder import StreamsBuilder
    from mustela.dsl.grouped import KGroupedStream
    from mustela.dsl.kstream import KStream
    from mustela.dsl.ktable import KTable
    from mustela.dsl.options import Consumed, Grouped, Materialized, Produced
    from mustela.errors import (
        DataError,
        EnvironmentFault,
        InvariantError,
        MustelaError,
        UsageError,
    )
    from mustela.model import Record
    from mustela.runtime.app import App
    from mustela.serdes.base import Serde
    from mustela.testing.driver import TopologyTestDriver

__all__ = [
    "App",
    "Consumed",
    "DataError",
    "EnvironmentFault",
    "Grouped",
    "InvariantError",
    "KGroupedStream",
    "KStream",
    "KTable",
    "Materialized",
    "MustelaError",
    "Produced",
    "Record",
    "Serde",
    "StreamsBuilder",
    "TopologyTestDriver",
    "UsageError",
]

__version__: Final = "0.1.0"

_MODULE_OF: Final[dict[str, str]] = {
    "App": "mustela.runtime.app",
    "Consumed": "mustela.dsl.options",
    "DataError": "mustela.errors",
    "EnvironmentFault": "mustela.errors",
    "Grouped": "mustela.dsl.options",
    "InvariantError": "mustela.errors",
    "KGroupedStream": "mustela.dsl.grouped",
    "KStream": "mustela.dsl.kstream",
    "KTable": "mustela.dsl.ktable",
    "Materialized": "mustela.dsl.options",
    "MustelaError": "mustela.errors",
    "Produced": "mustela.dsl.options",
    "Record": "mustela.model",
    "Serde": "mustela.serdes.base",
    "StreamsBuilder": "mustela.dsl.builder",
    "TopologyTestDriver": "mustela.testing.driver",
    "UsageError": "mustela.errors",
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
