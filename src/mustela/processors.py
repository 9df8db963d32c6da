"""The Processor API: processors, their contexts, timers and scheduled sources."""

from __future__ import annotations

from mustela.api.context import (
    FixedKeyProcessorContext as FixedKeyProcessorContext,
    ProcessorContext as ProcessorContext,
    RecordMetadata as RecordMetadata,
)
from mustela.api.outputs import SideOutput as SideOutput
from mustela.api.processor import (
    ContextualFixedKeyProcessor as ContextualFixedKeyProcessor,
    ContextualProcessor as ContextualProcessor,
    FixedKeyProcessor as FixedKeyProcessor,
    Processor as Processor,
    ProcessorSupplier as ProcessorSupplier,
)
from mustela.api.processor_wrapper import (
    ProcessorWrapper as ProcessorWrapper,
    WrappedProcessor as WrappedProcessor,
)
from mustela.api.schedule import (
    CatchUp as CatchUp,
)
from mustela.api.scheduled import Tick as Tick
from mustela.api.timers import (
    Cancellable as Cancellable,
    FixedKeyTimer as FixedKeyTimer,
    PunctuationType as PunctuationType,
    TimeDomain as TimeDomain,
    Timer as Timer,
)
from mustela.api.value_transformer import (
    ValueTransformerWithKey as ValueTransformerWithKey,
)
from mustela.model import (
    FixedKeyRecord as FixedKeyRecord,
    Record as Record,
)
