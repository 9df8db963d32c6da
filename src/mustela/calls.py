"""Calls to the outside: ``map_values_async``, ``request_reply``, and how they fail."""

from __future__ import annotations

from mustela.topology.async_calls import (
    AsyncCall as AsyncCall,
    AsyncOptions as AsyncOptions,
    CallFailedError as CallFailedError,
    CircuitBreaker as CircuitBreaker,
    RateLimit as RateLimit,
    Retry as Retry,
)
from mustela.topology.request_reply import (
    RequestReply as RequestReply,
)
