"""Changes to keys of other lanes, made in the lane of the key, once, and in a defined order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.kernel.codec import StoreCodec
from mustela.kernel.divided import DividedBatch
from mustela.kernel.isolate import isolated
from mustela.kernel.keyed import KeyedOperator
from mustela.plan.batch import Batch, Origins
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.update import Operation, Updated, UpdateNode

__all__ = ["UpdateOperator"]


class UpdateOperator(KeyedOperator[UpdateNode]):
    """Applies the operations of an epoch, those of a key one after the other.

    They come in the order of the records that sent them; those of one record as they were sent.
    One that fails changes nothing, and its record meets the handler.
    """

    def open(self) -> None:
        """Open the store."""
        spec = self.node.store
        self.use_key_serde(spec.key_serde)
        self._store = self.lane_store(spec)
        self._codec = StoreCodec(spec, spec.value_serde or ValueSerde())
        self._bad_rows = self.user_failures(None)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: replies have keys of their own."""
        return None

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Apply the operations of all inputs; return the replies."""
        batch, key_bytes = self.with_key_bytes(Batch.merge(inputs))
        if not key_bytes:
            return None
        distinct = list(dict.fromkeys(key_bytes))
        stored = dict(zip(distinct, self._store.getmulti(distinct), strict=True))
        changed: dict[bytes, bytes | None] = {}
        replies: list[tuple[int, Operation, Updated[Any, Any]]] = []
        timestamps, keys = batch.timestamps, batch.keys
        for row, (key, operation) in enumerate(zip(key_bytes, batch.values, strict=True)):
            before = stored[key]
            try:
                new = operation.fn(self._codec.decode_one(before), *operation.args)
                after = self._codec.encode_one(new, timestamps[row])
            except Exception as error:  # noqa: BLE001 - the function is the user's
                self._bad_rows.function = operation.fn
                self._bad_rows.one(batch, row, error)
                continue
            stored[key] = changed[key] = after
            if operation.reply is not None:
                old = self._codec.decode_one(before)
                replies.append((row, operation, Updated(keys[row], old, isolated(new))))
        self.count("updates", len(key_bytes))
        if changed:
            self._store.put_many(list(changed), list(changed.values()))
        return self._replies(batch, replies)

    @staticmethod
    def _replies(
        batch: Batch, replies: list[tuple[int, Operation, Updated[Any, Any]]]
    ) -> Batch | None:
        if not replies:
            return None
        rows = [row for row, _, _ in replies]
        answered = batch.take(rows).with_keys(
            [operation.reply_key for _, operation, _ in replies],
            [updated for _, _, updated in replies],
        )
        origins = Origins(
            answered.timestamps, answered.headers, answered.order, answered.origins.topics
        )
        whole = Batch(answered.keys, answered.values, origins)
        return DividedBatch(whole, [operation.reply for _, operation, _ in replies])
