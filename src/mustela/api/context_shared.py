"""What a processor's context does with stores of other lanes, as users see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["SharedContext"]


class SharedContext:
    """The methods of a context that reach beyond the key group of the record in hand."""

    def any_key_store(self, name: str) -> Any:
        """Return a store of which any key can be read, whichever lane it belongs to.

        It shows what was committed at the end of the epoch before: nothing of the running epoch,
        not even what this step has written itself, so an epoch that is run again reads the same.
        Where a store is this step's own, `state_store` gives the key group's part of it as it is
        now. One `get_many` costs less than many reads of a single key. Writing raises.

        Args:
            name: The store, of any step: a table's, an aggregation's or a processor's; one that
                ``process(..., reads=[name])`` names.

        Returns:
            The store as its kind shows itself, to be read.

        Raises:
            StoreAccessError: If the step does not say that it reads the store.

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
        raise NotImplementedError

    def update(
        self,
        store: str,
        key: Any,
        fn: Callable[..., Any],
        *args: Any,
        reply_to: str | None = None,
        reply_key: Any = None,
        at: Any = None,
    ) -> None:
        """Have the value of a key changed in the key's own lane, in this epoch, exactly once.

        ``fn(old, *args)`` is called where the key is, with its value or None, and returns the new
        value; None deletes. The changes of an epoch to a store are made in the order of the records
        that asked for them; those of one record step by step, as the steps were written, and those
        of one step as it asked for them. Each sees what those before it left. If ``fn`` raises,
        nothing is changed, and the record that asked meets the processing handler. The store
        belongs to these changes alone: no processor is connected to it, and `any_key_store` reads
        it.

        Args:
            store: The store, one of ``process(..., updates=[...])``.
            key: The key that is changed.
            fn: What makes the new value; it travels to where the key is, and has no side effects.
            args: What ``fn`` gets behind the old value.
            reply_to: One of ``process(..., replies=[...])``: there a record follows whose value is
                an `Updated`, with the key and its value before and after.
            reply_key: The key of that record; the key that is changed if not given.
            at: Of a store of windows the start of the window that is changed; of one of sessions
                its start and end, as a pair; of a versioned store since when the new version
                holds, the record's timestamp if not given. Moments are milliseconds or aware
                datetimes.

        Raises:
            StoreAccessError: If the step does not say that it updates the store, or no record is in
                hand.
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
        raise NotImplementedError
