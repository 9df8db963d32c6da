"""The records that transactions send on, and those whose transactions were refused."""

from __future__ import annotations

from typing import Any, TypeVar

from mustela.dsl.handle import Handle
from mustela.dsl.kstream import KStream
from mustela.dsl.registry import NodePlace
from mustela.serdes.base import Serde
from mustela.state.transaction import Refusal
from mustela.topology.routing import BranchNode, RepartitionNode
from mustela.topology.transact import REFUSED

__all__ = ["TransactedKStream"]

K = TypeVar("K")
V = TypeVar("V")


class TransactedKStream(KStream[K, V]):
    """The records that transactions sent on; a `KStream` that also knows the refused ones.

    Args:
        stream: The stream whose records have transactions.
        place: The step that runs them.
        name: The step that makes this stream.
        key: Serde of the keys, if it is known.

    Example:
        >>> from mustela import Stores, StreamsBuilder
        >>> seen = Stores.key_value_store_builder(
        ...     Stores.persistent_key_value_store("seen"), key=str, value=int)
        >>> clicks = StreamsBuilder().stream("clicks", key=str, value=str)
        >>> done = clicks.transact(
        ...     keys=lambda user, page: [user, page],
        ...     fn=lambda user, page, tx: tx.store("seen").put(page, 1), stores=seen)
        >>> done.to("done", value=str)
    """

    def __init__(
        self, stream: Handle[Any, Any], place: NodePlace, name: str, key: Serde[Any] | None
    ) -> None:
        super().__init__(stream._registry, name, key, None)
        self._stream = stream
        self._place_of_step = place
        self._refused: KStream[Any, Refusal[Any]] | None = None

    def refused(self) -> KStream[Any, Refusal[Any]]:
        """Return the records whose transactions were refused, each with the reason.

        A transaction is refused by its own `Transaction.abort`, and then has no effect. If this
        stream is not used, the record is dropped; it is counted in either case.

        Returns:
            The stream of refusals, by the records' own keys; the same one every time.

        Example:
            >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
            >>> def once(key, _value, tx):
            ...     if tx.store("used").put_if_absent(key, True):
            ...         tx.abort("used before")
            >>> used = Stores.key_value_store_builder(
            ...     Stores.persistent_key_value_store("used"), key=str, value=bool)
            >>> builder = StreamsBuilder()
            >>> codes = builder.stream("codes", key=str, value=str)
            >>> taken = codes.transact(keys=lambda key, _: [key], fn=once, stores=used)
            >>> taken.refused().map_values(lambda refusal: refusal.reason).to("refused", value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("codes").pipe_key_value_list([("a", "1"), ("a", "2")])
            ...     driver.create_output_topic("refused").read_key_values_to_list()
            [('a', 'used before')]
        """
        if self._refused is None:
            registry, place, key = self._registry, self._place_of_step, self._stream._key
            step = place["name"]
            branch = BranchNode(**registry.part(place, "aborted", step, joint="-"), index=REFUSED)
            registry.add(branch)
            node = RepartitionNode(
                **registry.part(place, "refused", branch.name, joint="-"), key=key
            )
            registry.add(node)
            self._refused = registry.handles.stream(node.name, key, None)
        return self._refused
