"""Changes to keys of other lanes, applied in the key's lane, once and in a defined order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.api.errors import StoreAccessError
from mustela.api.update import Operation, Updated
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.divided import DividedBatch
from mustela.kernel.core.isolate import isolated
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import Headers
from mustela.plan.batch import Batch, Origins
from mustela.plan.keygroups import row_groups
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.update import UpdateNode

__all__ = ["UpdateOperator"]


class _MomentStore:
    """A store of several values of a key, as operations change it.

    Args:
        store: The store as processors see it.
        spec: Its specification.
    """

    __slots__ = ("_change_at", "_spec", "_store")

    def __init__(self, store: Any, spec: StoreSpec) -> None:
        assert spec.traits.change_at is not None, spec.kind
        self._change_at = spec.traits.change_at
        self._store = store
        self._spec = spec

    def apply(
        self, key: Any, operation: Operation, timestamp: int, headers: Headers
    ) -> tuple[Any, Any]:
        """Apply an operation of a record with this timestamp and headers.

        Returns:
            The value before and after.
        """
        before: list[Any] = [None]

        def change(old: Any) -> Any:
            before[0] = isolated(old)
            return operation.fn(old, *operation.args)

        more: dict[str, Any] = {"headers": headers} if self._spec.with_headers else {}
        moments = self._moments(operation.at)
        new = self._change_at.apply(self._store, key, change, moments, timestamp, **more)
        return before[0], new

    def _moments(self, at: Any) -> tuple[Any, ...] | None:
        number = self._change_at.moments
        if at is None and not number:
            return None
        found: tuple[Any, ...] = (at,)
        if number > 1 and isinstance(at, tuple | list):
            found = tuple(at)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if len(found) == max(number, 1) and None not in found:
            return found
        msg = f"update of store {self._spec.name!r} does not say which window of the key to change"
        raise StoreAccessError(
            msg,
            at=None,
            why=f"it is a {self._spec.kind} store",
            fix=f"name {self._change_at.words}",
            fields={"store": self._spec.name},
        )


class UpdateOperator(KeyedOperator[UpdateNode]):
    """Applies the operations of an epoch, those of a key one by one.

    They are ordered by the records that sent them; those of one record as they were sent. An
    operation that fails changes nothing, and its record goes to the handler.
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
        self.count("updates", len(key_bytes))
        if not self.node.store.traits.by_key:
            return self._replies(batch, self._at_moments(batch, key_bytes))
        distinct = list(dict.fromkeys(key_bytes))
        stored = dict(zip(distinct, self._store.getmulti(distinct), strict=True))
        changed: dict[bytes, bytes | None] = {}
        replies: list[tuple[int, Operation, Updated[Any, Any]]] = []
        timestamps, keys, headers = batch.timestamps, batch.keys, batch.headers
        row, count = 0, len(key_bytes)
        while row < count:
            key, operation = key_bytes[row], batch.values[row]
            before = stored[key]
            try:
                new = operation.fn(self._codec.decode_one(before), *operation.args)
                after = self._codec.encode_one(new, timestamps[row])
                if headers is not None:
                    after = self._codec.with_headers(after, headers[row])
            except Exception as error:  # noqa: BLE001 - the function is the user's
                row += not self._again(batch, row, error)
                continue
            stored[key] = changed[key] = after
            if operation.reply is not None:
                old = self._codec.decode_one(before)
                replies.append((row, operation, Updated(keys[row], old, isolated(new))))
            row += 1
        if changed:
            self._store.put_many(list(changed), list(changed.values()))
        return self._replies(batch, replies)

    def _at_moments(
        self, batch: Batch, key_bytes: Sequence[bytes]
    ) -> list[tuple[int, Operation, Updated[Any, Any]]]:
        """Apply the operations to windows, sessions or versions, one by one."""
        spec = self.node.store
        groups = row_groups(key_bytes, self.options.key_groups, suffix=self._key.group_suffix)
        views = {
            group: _MomentStore(open_group_store(self._store.group(group), spec, plain=False), spec)
            for group in set(groups)
        }
        replies: list[tuple[int, Operation, Updated[Any, Any]]] = []
        headers, timestamps = batch.headers, batch.timestamps
        row, count = 0, len(key_bytes)
        while row < count:
            key, operation = batch.keys[row], batch.values[row]
            try:
                mine = () if headers is None else headers[row]
                old, new = views[groups[row]].apply(key, operation, timestamps[row], mine)
            except Exception as error:  # noqa: BLE001 - the function is the user's
                row += not self._again(batch, row, error)
                continue
            if operation.reply is not None:
                replies.append((row, operation, Updated(key, isolated(old), isolated(new))))
            row += 1
        return replies

    def _again(self, batch: Batch, row: int, error: Exception) -> bool:
        """Return whether a record's change is tried again: what it gets is decoded once more."""
        self._bad_rows.function = batch.values[row].fn
        return self._bad_rows.one(batch, row, error, repeats=True)

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
