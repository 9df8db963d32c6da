"""The settings of traces."""

from __future__ import annotations

from pydantic import Field

from mustela.config.section import Section

__all__ = ["TracesSettings"]


class TracesSettings(Section):
    """Whether spans are made for OpenTelemetry."""

    enabled: bool = Field(
        default=False,
        description="Make OpenTelemetry spans of epochs, and of records that carry a `traceparent` "
        "header. They go to the tracer provider that the program sets; needs `mustela[otel]`.",
    )
