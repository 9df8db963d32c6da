"""What a processor's context does with several keys of any lane at once, as users see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["TransactContext"]


class TransactContext:
    """The method of a context that asks for a transaction."""

    def transact(self, keys: Any, fn: Callable[..., Any], *args: Any, key: Any = None) -> None:
        """Have a transaction run over several keys of any lanes, in this epoch, exactly once.

        It is what one would take locks for. ``fn(tx, *args)`` is called behind this step, with a
        `Transaction` over the keys that are declared here. Transactions of an epoch that share
        keys, directly or by way of others, run one after the other in the order of the records
        that asked for them, those of one record as they were asked for; all others in parallel.
        If ``fn`` raises, it has no effect, and the processing handler is asked. What it returns or
        forwards goes to `ProcessedKStream.transacted`.

        The stores belong to these transactions alone: `any_key_store` reads them.

        Args:
            keys: The keys that the transaction may touch: a list for all of its stores, or a dict
                of such lists by store.
            fn: The transaction; it travels to where it is run, and has no side effects.
            args: What ``fn`` gets behind the transaction.
            key: The key of a record that ``fn`` returns; that of the record in hand if not given.

        Raises:
            StoreAccessError: If the step was not given ``transacts=[...]``, or no record is in
                hand.

        Example:
            >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> def seat(tx, guest, table):
            ...     free, seats = tx.store("free"), tx.store("seats")
            ...     if free.get(table, 2) == 0:
            ...         tx.abort("full")
            ...     free.put(table, free.get(table, 2) - 1)
            ...     seats.put(guest, table)
            ...     return table
            >>> class Reserve(ContextualProcessor):
            ...     def process(self, record):
            ...         keys = {"free": [record.value], "seats": [record.key]}
            ...         self.context.transact(keys, seat, record.key, record.value)
            >>> def store(name, value):
            ...     supplier = Stores.persistent_key_value_store(name)
            ...     return Stores.key_value_store_builder(supplier, key=str, value=value)
            >>> builder = StreamsBuilder()
            >>> wishes = builder.stream("wishes", key=str, value=str)
            >>> stores = [store("free", int), store("seats", str)]
            >>> served = wishes.process(Reserve, transacts=stores)
            >>> served.transacted().to("seated", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     wish = driver.create_input_topic("wishes")
            ...     wish.pipe_key_value_list([("ann", "t1"), ("bob", "t1"), ("eve", "t1")])
            ...     driver.create_output_topic("seated").read_key_values_to_list()
            [('ann', 't1'), ('bob', 't1')]
        """
        raise NotImplementedError
