"""The Processor API: processors, their contexts, timers and scheduled sources."""

from __future__ import annotations

from mustela.dsl.processing import (
    SideOutput as SideOutput,
)
from mustela.model import (
    FixedKeyRecord as FixedKeyRecord,
    Record as Record,
)
from mustela.topology.processor_api import (
    ContextualFixedKeyProcessor as ContextualFixedKeyProcessor,
    ContextualProcessor as ContextualProcessor,
    FixedKeyProcessor as FixedKeyProcessor,
    Processor as Processor,
    ProcessorSupplier as ProcessorSupplier,
)
from mustela.topology.processor_context import (
    FixedKeyProcessorContext as FixedKeyProcessorContext,
    ProcessorContext as ProcessorContext,
    RecordMetadata as RecordMetadata,
)
from mustela.topology.processor_wrapper import (
    ProcessorWrapper as ProcessorWrapper,
    WrappedProcessor as WrappedProcessor,
)
from mustela.topology.schedule import (
    CatchUp as CatchUp,
)
from mustela.topology.scheduled import (
    Tick as Tick,
)
from mustela.topology.timers import (
    Cancellable as Cancellable,
    FixedKeyTimer as FixedKeyTimer,
    PunctuationType as PunctuationType,
    TimeDomain as TimeDomain,
    Timer as Timer,
)
from mustela.topology.value_transformer import (
    ValueTransformerWithKey as ValueTransformerWithKey,
)
