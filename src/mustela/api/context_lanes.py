"""A context's methods that reach beyond its key group: any key, changes, transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela.api.context_port import OverPort
from mustela.api.transact import Request
from mustela.api.update import Operation, reply_output

__all__ = ["LanesContext"]


class _TheKey:
    def __repr__(self) -> str:
        return "key"


_KEY: Any = _TheKey()
"""Stands for the key that is changed; None cannot, because it is a valid key."""


class LanesContext(OverPort):
    """The methods of a context that reach beyond the key group of the current record."""

    def any_key_store(self, name: str) -> Any:
        """Return a store in which any key can be read, whichever lane it belongs to.

        It shows what was committed at the end of the previous epoch: nothing from the running
        epoch, not even this step's own writes, so an epoch that is run again reads the same. For
        the current content of a step's own store, within its key group, use `state_store`. One
        `get_many` costs less than many reads of single keys. Writing to the store raises an error.

        Args:
            name: A store of any step (a table, an aggregation or a processor) that ``process(...,
                reads=[name])`` names.

        Returns:
            A read-only view, with the methods of the store's kind.

        Raises:
            StoreAccessError: If the step did not declare that it reads the store.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class WithCustomer(ContextualProcessor):
            ...     def process(self, record):
            ...         customer = self.context.any_key_store("customers").get(record.value["by"])
            ...         self.context.forward(record.with_value(customer.value))
            >>> builder = StreamsBuilder()
            >>> customers = builder.table("customers", key=str, value=str, store="customers")
            >>> orders = builder.stream("orders", key=str, value=dict)
            >>> orders.process(WithCustomer, reads=["customers"]).to("buyers", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("customers").pipe_input("c-7", "Ann")
            ...     driver.create_input_topic("orders").pipe_input("o-1", {"by": "c-7"})
            ...     driver.create_output_topic("buyers").read_key_values_to_list()
            [('o-1', 'Ann')]
        """
        step = self._step
        if step.reads is not None and name not in step.reads:
            raise step.not_read(name)
        found = self._port.any_key_store(name)
        if found is None:
            raise step.no_store(name)
        return found

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
        """Change the value of any key in that key's own lane, in this epoch, exactly once.

        ``fn(old, *args)`` is called where the key is stored, with its value or None, and returns
        the new value; None deletes. An epoch's changes to a store are made in the order of the
        records that asked for them; those of one record in the order of its steps, and those of one
        step in the order of its calls. Each change sees the result of those before it. If ``fn``
        raises, nothing is changed, and the processing handler decides about the record that asked.
        The store is reserved for such changes: it cannot be connected to a processor. Use
        `any_key_store` to read it.

        Args:
            store: The store, one of ``process(..., updates=[...])``.
            key: The key to change.
            fn: Makes the new value; it is sent to where the key is stored, and must have no side
                effects.
            args: Passed to ``fn`` after the old value.
            reply_to: One of ``process(..., replies=[...])``: it receives a record whose value is an
                `Updated`, with the key and its value before and after.
            reply_key: The key of that record; the changed key if not given.
            at: For a window store, the start of the window to change; for a session store, the
                session's start and end as a pair; for a versioned store, the time from which the
                new version is valid (the record's timestamp if not given). Times are milliseconds
                or aware datetimes.

        Raises:
            StoreAccessError: If the step did not declare that it updates the store, or there is no
                current record.
            UnknownChildError: If the step has no such reply.

        Example:
            >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> def add(points, more):
            ...     return (points or 0) + more
            >>> class Score(ContextualProcessor):
            ...     def process(self, record):
            ...         for player in record.value:
            ...             self.context.update("points", player, add, 3, reply_to="scored")
            >>> points = Stores.key_value_store_builder(
            ...     Stores.persistent_key_value_store("points"), key=str, value=int)
            >>> builder = StreamsBuilder()
            >>> games = builder.stream("games", key=str, value=list)
            >>> scored = games.process(Score, updates=[points], replies=["scored"])
            >>> scored.reply("scored").map_values(lambda change: change.new).to("totals", value=int)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("games").pipe_value_list([["ann", "bob"], ["ann"]])
            ...     driver.create_output_topic("totals").read_key_values_to_list()
            [('ann', 3), ('bob', 3), ('ann', 6)]
        """
        step = self._step
        if step.updates is not None and store not in step.updates:
            raise step.not_updated(store)
        reply = None
        if reply_to is not None:
            if step.replies is not None and reply_to not in step.replies:
                raise step.no_reply(reply_to)
            reply = reply_output(step.name, reply_to)
        if not callable(fn):
            msg = f"update takes a function of the old value, not {type(fn).__name__} {fn!r:.60}"
            raise TypeError(msg)
        answered = key if reply_key is _KEY else reply_key
        if not self._port.ask(Operation(fn, args, reply, answered, at), key, store):
            why = "changes are made in the order of the records that ask for them"
            raise step.cannot_ask(method="update", why=why, store=store)

    def transact(self, keys: Any, fn: Callable[..., Any], *args: Any, key: Any = None) -> None:
        """Run a transaction over several keys of any lanes, in this epoch, exactly once.

        Use it where you would otherwise take locks. ``fn(tx, *args)`` is called after this step,
        with a `Transaction` over the keys that are declared here. Transactions of an epoch that
        share keys, directly or through others, run one at a time, in the order of the records that
        asked for them and, for one record, in the order of its calls; all others run in parallel.
        If ``fn`` raises, the transaction has no effect, and the processing handler is called. What
        ``fn`` returns or forwards goes to `ProcessedKStream.transacted`.

        The stores are reserved for these transactions. Use `any_key_store` to read them.

        Args:
            keys: The keys that the transaction may touch: a list that holds for all of its stores,
                or a dict with a list for each store.
            fn: The transaction; it is sent to where it runs, and must have no side effects.
            args: Passed to ``fn`` after the transaction.
            key: The key of a record that ``fn`` returns; that of the current record if not given.

        Raises:
            StoreAccessError: If the step was not given ``transacts=[...]``, or there is no current
                record.

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
        step = self._step
        if not step.transacts:
            raise step.no_transactions()
        if not callable(fn):
            msg = f"transact takes a function of the transaction, not {type(fn).__name__}"
            raise TypeError(msg)
        if not self._port.ask(Request(keys, fn, args), key, None):
            why = "transactions run in the order of the records that ask for them"
            raise step.cannot_ask(method="transact", why=why)
