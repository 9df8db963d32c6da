"""What a transaction sees: its declared keys, in one or more stores.

A lane holds its values as bytes, by store: as they were at the end of the previous epoch, plus the
writes of this lane's transactions since. A running transaction keeps its writes apart; they are
added only when it completes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from mustela.errors import DataError
from mustela.model import Headers, RecordContext
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.opening import open_store

__all__ = [
    "Refusal",
    "Transaction",
    "TransactionRefused",
    "TransactionScope",
    "UndeclaredKeyError",
]

V_co = TypeVar("V_co", covariant=True)

_SCANNED_MAX = 8
"""Up to this many keys, a linear search is as fast as a set."""


class UndeclaredKeyError(DataError):
    """A transaction accessed a key, or a store, that was not declared for it."""

    code = "TRANSACTION_UNDECLARED_KEY"


class TransactionRefused(Exception):
    """Ends a transaction without effect; raised by `Transaction.abort`.

    Args:
        reason: The reason, passed with the record to the step's ``refused()`` stream.

    Example:
        >>> str(TransactionRefused("not enough money"))
        'not enough money'
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Refusal(Generic[V_co]):
    """A record whose transaction was refused.

    Attributes:
        value: The record's value.
        reason: The reason that the transaction gave.

    Example:
        >>> Refusal({"amount": 5}, "not enough money").reason
        'not enough money'
    """

    value: V_co
    reason: str


class _DeclaredView:
    """The declared keys of one store; a `StoreView`.

    Attributes:
        now: The current value of every key that some transaction of the lane declares.
        declared: The keys of the running transaction.
        written: What the running transaction has written.
    """

    __slots__ = ("_step", "declared", "now", "spec", "written")

    def __init__(self, spec: StoreSpec, step: str) -> None:
        self.spec = spec
        self._step = step
        self.now: dict[bytes, bytes | None] = {}
        self.declared: Sequence[bytes] | frozenset[bytes] = ()
        self.written: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a declared key, or None."""
        if key not in self.declared:
            self._refuse(key)
        return self.written[key] if key in self.written else self.now[key]

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of declared keys."""
        return [self.get(key) for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a declared key; None deletes."""
        if key not in self.declared:
            self._refuse(key)
        self.written[key] = value

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Refuse: the keys in a range cannot be declared."""
        del low, high, reverse
        self._refuse_many()

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Refuse, as `range` does."""
        del prefix, reverse
        self._refuse_many()

    def count(self) -> int:
        """Refuse, as `range` does."""
        self._refuse_many()

    def _refuse(self, data: bytes) -> NoReturn:
        serde = self.spec.key_serde
        key = data if serde is None else serde.deserialize(data)
        msg = (
            f"a transaction of step {self._step!r} touched key {key!r} of store "
            f"{self.spec.name!r}, which was not declared for it"
        )
        raise UndeclaredKeyError(
            msg,
            why="transactions run in parallel where their declared keys are apart",
            fix=f"return {key!r} from keys= too",
            fields={"step": self._step, "store": self.spec.name, "key": key},
        )

    def _refuse_many(self) -> NoReturn:
        msg = f"a transaction of step {self._step!r} asked store {self.spec.name!r} for a range"
        raise StoreError(
            msg,
            why="a transaction sees the keys that were declared for it, one by one",
            fix="declare the keys, and ask with get()",
            fields={"step": self._step, "store": self.spec.name},
        )


class TransactionScope:
    """The data that the transactions of a lane work on, one by one.

    Args:
        step: The step.
        touches: The stores.
        record: Returns the context of the record in a row.

    Attributes:
        stores: The stores as transactions see them, by name.
        row: The row of the running transaction's record.
        forwarded: Keys and values that the running transaction has forwarded.

    Example:
        >>> from mustela.serdes.primitives import StrSerde
        >>> spec = StoreSpec(name="s", kind="key_value",
        ...                  key_serde=StrSerde(), value_serde=StrSerde())
        >>> scope = TransactionScope("step", [spec], lambda row: RecordContext())
        >>> scope.load(0, {b"a": None, b"b": b"2"})
        >>> scope.begin(0, [[b"a", b"b"]])
        >>> scope.stores["s"].put("a", scope.stores["s"]["b"])
        >>> scope.commit()
        >>> list(scope.changes())
        [(0, b'a', b'2')]
    """

    __slots__ = ("_before", "_views", "forwarded", "record", "row", "step", "stores")

    def __init__(
        self, step: str, touches: Sequence[StoreSpec], record: Callable[[int], RecordContext]
    ) -> None:
        self.step = step
        self.record = record
        self.row = 0
        self.forwarded: list[tuple[Any, Any]] = []
        self._views = [_DeclaredView(spec, step) for spec in touches]
        self._before: list[Mapping[bytes, bytes | None]] = [{} for _ in touches]
        self.stores = {view.spec.name: open_store(view, view.spec) for view in self._views}

    def load(self, store: int, values: Mapping[bytes, bytes | None]) -> None:
        """Set the values of all declared keys of a store before the first transaction."""
        self._before[store] = values
        self._views[store].now = dict(values)

    def begin(self, row: int, declared: Sequence[Sequence[bytes]]) -> None:
        """Begin the transaction of a record, given the keys that it declares in each store."""
        self.row = row
        self.forwarded = []
        for view, keys in zip(self._views, declared, strict=True):
            view.declared = keys if len(keys) <= _SCANNED_MAX else frozenset(keys)
            if view.written:
                view.written = {}

    def commit(self) -> None:
        """Apply the writes of the running transaction."""
        for view in self._views:
            if view.written:
                view.now.update(view.written)

    def changes(self) -> Iterator[tuple[int, bytes, bytes | None]]:
        """Yield store, key and new value of everything that the transactions have changed."""
        for store, (view, before) in enumerate(zip(self._views, self._before, strict=True)):
            for key, value in view.now.items():
                if before[key] != value:
                    yield store, key, value


class Transaction:
    """A running transaction: its stores, and what it forwards.

    A transaction step creates it and passes it to the step's function, which may use it until it
    returns.

    Args:
        scope: The data that the transactions of a lane work on.

    Example:
        >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
        >>> def buy(customer, amount, tx):
        ...     money = tx.store("money")
        ...     if money.get(customer, 100) < amount:
        ...         tx.abort("too little money")
        ...     money.put(customer, money.get(customer, 100) - amount)
        ...     return "bought"
        >>> money = Stores.key_value_store_builder(
        ...     Stores.persistent_key_value_store("money"), key=str, value=int)
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> bought = orders.transact(keys=lambda key, _: [key], fn=buy, stores=[money], name="buy")
        >>> bought.to("bought", value=str)
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("orders").pipe_key_value_list([("ann", 70), ("ann", 40)])
        ...     driver.create_output_topic("bought").read_key_values_to_list()
        ...     driver.get_key_value_store("money")["ann"]
        [('ann', 'bought')]
        30
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: TransactionScope) -> None:
        self._scope = scope

    def store(self, name: str) -> Any:
        """Return one of the step's stores, limited to the keys that were declared.

        It is a `KeyValueStore`, or a `TimestampedKeyValueStore` if the store keeps timestamps, or
        one that also keeps headers, with all methods except those over ranges. Later reads of the
        same transaction see its writes, and so do later transactions that declare the key, once
        this one has completed.

        Args:
            name: Name of one of the step's stores.

        Raises:
            UndeclaredKeyError: If the step has no such store; later, for each key that the
                transaction has not declared.
        """
        scope = self._scope
        found = scope.stores.get(name)
        if found is None:
            msg = f"step {scope.step!r} has no store {name!r} in its transactions"
            raise UndeclaredKeyError(
                msg,
                evidence={"stores": ", ".join(scope.stores)},
                fix="name the store in stores=",
                fields={"step": scope.step, "store": name},
            )
        return found

    def forward(self, key: Any, value: Any) -> None:
        """Forward a record, with the timestamp and the headers of the transaction's record.

        It is forwarded only if the transaction completes. A value that the function returns is
        forwarded after all of these.

        Args:
            key: The record's key.
            value: The record's value, which may be None.
        """
        self._scope.forwarded.append((key, value))

    def abort(self, reason: str = "") -> NoReturn:
        """End the transaction without effect.

        The record goes, with the reason, to the step's ``refused()`` stream. If there is no such
        stream, it is dropped and counted as ``refused_transactions``.

        Args:
            reason: The reason.

        Raises:
            TransactionRefused: Always; do not catch it.
        """
        raise TransactionRefused(reason)

    @property
    def context(self) -> RecordContext:
        """Topic, partition, offset, timestamp and headers of the transaction's record."""
        return self._scope.record(self._scope.row)

    @property
    def timestamp(self) -> int:
        """The timestamp of the transaction's record in milliseconds."""
        return self.context.timestamp

    @property
    def headers(self) -> Headers:
        """The headers of the transaction's record."""
        return self.context.headers
