"""The processors that topologies name; java/Processors.java says the same in Java."""

from __future__ import annotations

from typing import Any

from mustela.processors import ContextualFixedKeyProcessor, ContextualProcessor
from tests.differential import functions as f

__all__ = ["Fixed", "Free"]


class Fixed(ContextualFixedKeyProcessor[Any, Any, Any]):
    """Keeps what it has seen of a key, and tells it."""

    def __init__(self, name: str, store: str) -> None:
        """Note the store."""
        self._name, self._store = name, store

    def process(self, record: Any) -> None:
        """Forward what is kept now, and what was before."""
        if record.key is None:
            self.context.forward(record)
            return
        values = self.context.state_store(self._store)
        before = values.get(record.key)
        after = _after(self._name, record.key, record.value, before)
        if self._name == "first" and before is not None and after is not None:
            return
        values.put(record.key, after)
        if self._name == "both":
            self.context.forward(record.with_value(before))
        self.context.forward(record.with_value(after))


class Free(ContextualProcessor[Any, Any, Any, Any]):
    """The same, with other keys and times."""

    def __init__(self, name: str, store: str) -> None:
        """Note the store."""
        self._name, self._store = name, store

    def process(self, record: Any) -> None:
        """Forward what was before by another key, and what is kept now at another time."""
        if record.key is None:
            return
        values = self.context.state_store(self._store)
        before = values.get(record.key)
        after = _after(self._name, record.key, record.value, before)
        values.put(record.key, after)
        if self._name == "both":
            key = f.map_key("upper", record.key, None)
            self.context.forward(record.with_key(key).with_value(before))
        self.context.forward(record.with_value(after).with_timestamp(record.timestamp + 3))


def _after(name: str, key: Any, value: Any, before: Any) -> Any:
    return value if value is None or name == "first" else f.add("concat", key, value, before)
