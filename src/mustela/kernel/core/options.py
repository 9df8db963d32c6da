"""The settings that an engine passes to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mustela.api.handlers import Handler
from mustela.plan.batch import Batch
from mustela.plan.calls import CallDesk

__all__ = ["Handler", "KernelOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions:
    """Settings that change what operators do; all of them are plain values.

    Attributes:
        emit: ``barrier``: a table forwards at most one change per key and epoch. ``every``: it
            forwards each update.
        event_time: What time means: the app's watermark, or each operator's own largest timestamp.
        key_groups: Number of key groups, a power of two.
        deserialization_handler: For records of a source that cannot be decoded.
        processing_handler: For records on which a user's function raises.
        production_handler: For rows whose key or value cannot be encoded for a sink, an exchange
            or a store.
        topic_partitions: Partitions of sink topics, for sinks with a partitioner.
        late_letters: Indices of topics whose records that come too late for their window become
            dead letters.
        application_id: The application's id, for processors that ask for it.
        app_configs: The application's settings by name, likewise.
        calls: Makes external calls; None if no step needs any.
        keep_calls: Whether tasks report what they learned from calls.
        call_wait_ms: How long a stage waits for their results before it parks what is unfinished.
        letter_raws: Whether the bytes of each record are kept, for dead letters and handlers.
        pause: Waits so many seconds before a record is tried again; None for not at all.
        on_step: Called with a step's index in its stage before the step handles a batch.
        timer: Seconds, by which the time in each step is measured; None to measure none.
        on_rows: Called with a step's name and the rows that it forwards.
        traces: Whether records that carry a trace context get spans.
        combine_keys_max: A combiner flushes when it holds more keys than this.
    """

    emit: Literal["barrier", "every"] = "barrier"
    event_time: Literal["watermark", "stream-time"] = "watermark"
    key_groups: int = 32
    deserialization_handler: Handler = "fail"
    processing_handler: Handler = "fail"
    production_handler: Handler = "fail"
    topic_partitions: Mapping[str, int] = field(default_factory=dict[str, int])
    late_letters: frozenset[int] = frozenset()
    application_id: str = ""
    app_configs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: CallDesk | None = None
    keep_calls: bool = False
    call_wait_ms: int = 50
    letter_raws: bool = False
    pause: Callable[[float], None] | None = None
    on_step: Callable[[int], None] | None = None
    timer: Callable[[], float] | None = None
    on_rows: Callable[[str, Batch], None] | None = None
    traces: bool = False
    combine_keys_max: int = 500_000
