"""Sends rows to the lane of their key in a later stage."""

from __future__ import annotations

from typing import Any

from mustela.kernel.core.each import drop, keep_mask, without
from mustela.kernel.core.encode import encode_column, known_key_bytes
from mustela.kernel.core.failures import Failures, SerializationError
from mustela.kernel.core.operator import OperatorContext
from mustela.plan.batch import Batch
from mustela.plan.plan import Exchange
from mustela.topology.node import Node

__all__ = ["ExchangeOperator"]


class ExchangeOperator:
    """Encodes keys, drops rows without one, and collects the rest for the engine.

    Args:
        exchange: The exchange.
        node: The node whose output it carries, to name it in errors.
        context: The stage.
    """

    def __init__(self, exchange: Exchange, node: Node, context: OperatorContext) -> None:
        self.exchange = exchange
        self.node = node
        self.context = context

    def process(self, batch: Batch) -> None:
        """Collect the rows of a batch."""
        key_bytes: Any = known_key_bytes(batch, self.context.key_serde, self.exchange.key)
        if key_bytes is None:
            output, options = self.context.output, self.context.options
            handler = self.node.on_error or options.production_handler
            failures = Failures(self.node, handler, SerializationError, output)
            failures.pause, failures.application_id = options.pause, options.application_id
            key_bytes, failed = encode_column(self.exchange.key, batch.keys, batch, failures)
            batch, key_bytes = without(batch, failed), drop(key_bytes, failed)
        batch = batch.with_key_bytes(key_bytes)
        if not self.exchange.keep_null_keys and not all(key_bytes) and None in key_bytes:
            null = [row for row, key in enumerate(key_bytes) if key is None]
            self.context.output().counters[f"dropped_null_key:{self.exchange.step}"] += len(null)
            batch = batch.select(keep_mask(len(batch), null))
        if len(batch):
            self.context.output().exchanges.setdefault(self.exchange.name, []).append(batch)
