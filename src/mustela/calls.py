"""Calls to external services: ``map_values_async``, ``request_reply``, and how they fail."""

from __future__ import annotations

from mustela.api.calls import (
    AsyncCall as AsyncCall,
    AsyncOptions as AsyncOptions,
    CallFailedError as CallFailedError,
    CircuitBreaker as CircuitBreaker,
    RateLimit as RateLimit,
    RequestReply as RequestReply,
    Retry as Retry,
)
