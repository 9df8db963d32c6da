"""What processors do with stores of other lanes: read any key, and have keys changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela.api.errors import StoreAccessError, UnknownChildError
from mustela.api.update import Operation, reply_output, update_output
from mustela.errors import InvariantError
from mustela.kernel.core.isolate import isolated
from mustela.model import Record

__all__ = ["SharedStores"]

_KEY: Any = object()


class SharedStores:
    """Methods of the contexts; see `mustela.api.context`.

    Attributes:
        operator: The processor's step, a `mustela.kernel.processors.processor.ProcessorOperator`.
        task: The instance whose context this is, a `mustela.kernel.processors.processor.Task`.
    """

    operator: Any
    task: Any

    def any_key_store(self, name: str) -> Any:
        """Return a store of any lane, as of the end of the epoch before."""
        node, reader = self.operator.node, self.operator.context.any_key
        if name not in node.reads_any:
            msg = f"step {node.name!r} does not say that it reads any key of {name!r}"
            raise StoreAccessError(
                msg,
                evidence={"it reads": ", ".join(node.reads_any) or "none"},
                at=node.origin,
                why="what a step reads of other lanes is known before the epoch begins",
                fix=f'process(..., reads=["{name}"])',
                fields={"step": node.name, "store": name},
            )
        if reader is None:
            msg = f"step {node.name!r} reads any key of {name!r}, and its task cannot"
            raise InvariantError(msg)
        return reader.open(name)

    def update(
        self,
        store: str,
        key: Any,
        fn: Callable[..., Any],
        *args: Any,
        reply_to: str | None = None,
        reply_key: Any = _KEY,
        at: Any = None,
    ) -> None:
        """Have a key changed in its own lane, in this epoch."""
        operator, node = self.operator, self.operator.node
        hand = operator.hand
        if store not in node.updates:
            raise self._not_updated(store)
        if reply_to is not None and reply_to not in node.replies:
            msg = f"step {node.name!r} has no reply {reply_to!r}"
            raise UnknownChildError(
                msg,
                evidence={"replies": ", ".join(node.replies) or "none"},
                at=node.origin,
                why="replies are declared where the processor is added",
                fix=f'process(..., replies=["{reply_to}"])',
                fields={"step": node.name, "child": reply_to},
            )
        if not callable(fn):
            msg = f"update takes a function of the old value, not {type(fn).__name__} {fn!r:.60}"
            raise TypeError(msg)
        if hand is None:
            msg = "update is called outside of process() and timers: no record is in hand"
            raise StoreAccessError(
                msg,
                at=node.origin,
                why="changes are made in the order of the records that ask for them",
                fix="call it in process()",
                fields={"step": node.name, "store": store},
            )
        reply = None if reply_to is None else reply_output(node.name, reply_to)
        answered = isolated(key if reply_key is _KEY else reply_key)
        operation = Operation(fn, tuple(map(isolated, args)), reply, answered, at)
        # What one key group sends stays as it was sent, whatever came before it in the epoch.
        with operator.sending(hand, self.task.group):
            record = Record(key, operation, hand.timestamp, hand.headers)
            operator.sender.send(record, update_output(store))

    def _not_updated(self, store: str) -> StoreAccessError:
        node = self.operator.node
        return StoreAccessError(
            f"step {node.name!r} does not say that it updates {store!r}",
            evidence={"it updates": ", ".join(node.updates) or "none"},
            at=node.origin,
            why="changes travel to the lane of their key, on a way that is laid before",
            fix=f'process(..., updates=["{store}"])',
            fields={"step": node.name, "store": store},
        )
