"""Transactions that processors ask for; they run in the stages behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela.api.errors import StoreAccessError
from mustela.api.transact import REQUESTS, Request
from mustela.kernel.core.isolate import isolated
from mustela.model import Record

__all__ = ["TransactMethods"]


class TransactMethods:
    """The method of the contexts; see `mustela.api.context_transact`.

    Attributes:
        operator: The processor's step, a `mustela.kernel.processors.processor.ProcessorOperator`.
        task: The instance whose context this is, a `mustela.kernel.processors.processor.Task`.
    """

    operator: Any
    task: Any
    _sent: int = 0
    """How much the instance has sent to other lanes; its order, as part of it."""

    def transact(self, keys: Any, fn: Callable[..., Any], *args: Any, key: Any = None) -> None:
        """Have a transaction run over several keys of any lanes, in this epoch."""
        operator, node = self.operator, self.operator.node
        hand = operator.hand
        if not node.transacts or hand is None:
            raise self._no_transaction(asked=bool(node.transacts))
        if not callable(fn):
            msg = f"transact takes a function of the transaction, not {type(fn).__name__}"
            raise TypeError(msg)
        if key is None and hand.batch is not None:
            key = hand.batch.keys[hand.row]
        request = Request(isolated(keys), fn, tuple(map(isolated, args)))
        self._sent += 1
        with operator.sending(hand, self.task.group, self._sent):
            operator.sender.send(Record(key, request, hand.timestamp, hand.headers), REQUESTS)

    def _no_transaction(self, *, asked: bool) -> StoreAccessError:
        node = self.operator.node
        if asked:
            return StoreAccessError(
                "transact is called outside of process() and timers: no record is in hand",
                at=node.origin,
                why="transactions run in the order of the records that ask for them",
                fix="call it in process()",
                fields={"step": node.name},
            )
        return StoreAccessError(
            f"step {node.name!r} has no stores for transactions",
            at=node.origin,
            why="transactions travel to the lanes of their keys, on a way that is laid before",
            fix="process(..., transacts=[store])",
            fields={"step": node.name},
        )
