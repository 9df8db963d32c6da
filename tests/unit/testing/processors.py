"""What tests of processors have in common: ways to run them, stores, and one that counts."""

from __future__ import annotations

from typing import Any

from mustela import Record, Stores
from mustela.processors import ContextualProcessor
from mustela.stores import StoreBuilder

WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 8, "lanes": 2, "crash_after_every_record": True},
    {"settings": {"event_time": "watermark", "emit": "every"}},
]


def store(name: str, *, key: Any = str, value: Any = int) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=key, value=value)


class Count(ContextualProcessor[str, str, str, int]):
    """Counts the records of a key."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [store("counts")]

    def process(self, record: Record[str, str]) -> None:
        counts = self.context.state_store("counts")
        counts.put(record.key, counts.get(record.key, 0) + 1)
        self.context.forward(record.with_value(counts.get(record.key)))
