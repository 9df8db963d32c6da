"""Transactions over several keys of several stores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mustela.api.errors import BadOptionError, FunctionError, UnknownStoreError
from mustela.api.functions import check_function, function_name
from mustela.api.handlers import OnError, read_on_error
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.api.stores import StoreBuilder
from mustela.api.transact import REQUESTS
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.registry import NodePlace, Registry
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.state.transaction import Transaction
from mustela.topology.processor import OutputNode
from mustela.topology.routing import BranchNode, RepartitionNode
from mustela.topology.transact import (
    RESULTS,
    WRITTEN,
    TransactApplyNode,
    TransactKeysNode,
    TransactNode,
    TransactOrderNode,
)

if TYPE_CHECKING:
    from mustela.dsl.transacted import TransactedKStream

__all__ = ["DeclaredKeys", "TransactVerb", "attach_requests", "checked_stores"]

K = TypeVar("K")
V = TypeVar("V")

DeclaredKeys = Iterable[Any] | Mapping[str, Iterable[Any]]
"""The keys of a transaction: the same for all its stores, or by the name of each."""

_KEY_VALUE = ("key", "value")
_KEY_VALUE_TRANSACTION = ("key", "value", "transaction")


class TransactVerb(Handle[K, V]):
    """What `KStream` can do with several keys at once: transact."""

    def transact(
        self,
        *,
        keys: Callable[[K, V], DeclaredKeys],
        fn: Callable[[K, V, Transaction], Any],
        stores: str | StoreBuilder | Sequence[str | StoreBuilder],
        name: str | None = None,
        key: Any = None,
        on_error: OnError | None = None,
    ) -> TransactedKStream[Any, Any]:
        """Run a transaction for each record, over several keys of one or more stores.

        Each record first says which keys its transaction may touch. Transactions that share keys,
        directly or through others, run one at a time in the order of their records; all others run
        in parallel, in any lane. The outcome is as if all transactions ran one after another, and
        is the same whenever an epoch is run again. There are no locks, and nothing to wait for.

        A transaction that raises has no effect, and its record goes to the step's processing
        handler. One that calls `Transaction.abort` has no effect either, and its record goes to
        `TransactedKStream.refused`.

        The stores belong to the step. Other steps may read any key in them, as it was at the end of
        the previous epoch; none can write to them.

        Args:
            keys: Called with key and value; returns the keys that the transaction may touch: a list
                that holds for all stores, or a dict with a list for each store.
            fn: Called with key, value and the `Transaction`. Its result is sent on as a record with
                the same key, unless it is None; `Transaction.forward` sends on any record.
            stores: The stores: builders from `Stores.key_value_store_builder` or
                `Stores.timestamped_key_value_store_builder`, or names of stores that were added
                with `StreamsBuilder.add_state_store`.
            name: Step name; made from the step's place if not given.
            key: Type or serde of the keys of the records that are sent on; the stream's if not
                given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of the records that the transactions sent on, in the order of their records.

        Raises:
            BadOptionError: If a store is of another kind, or given twice, or none is given.
            FunctionError: If a function cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If there is another store of that name.
            UnknownStoreError: If a store was not added.

        Example:
            >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
            >>> def move(_id, transfer, tx):
            ...     source, target, amount = transfer
            ...     accounts = tx.store("accounts")
            ...     balance = accounts.get(source, 0)
            ...     if source != "bank" and balance < amount:
            ...         tx.abort("not enough money")
            ...     accounts.put(source, balance - amount)
            ...     accounts.put(target, accounts.get(target, 0) + amount)
            >>> accounts = Stores.key_value_store_builder(
            ...     Stores.persistent_key_value_store("accounts"), key=str, value=int)
            >>> builder = StreamsBuilder()
            >>> transfers = builder.stream("transfers", key=str, value=list)
            >>> moved = transfers.transact(
            ...     keys=lambda _id, transfer: transfer[:2], fn=move, stores=accounts)
            >>> with TopologyTestDriver(builder) as driver:
            ...     transfer = driver.create_input_topic("transfers")
            ...     transfer.pipe_input("t-1", ["bank", "ann", 100])
            ...     transfer.pipe_input("t-2", ["ann", "bob", 30])
            ...     transfer.pipe_input("t-3", ["bob", "ann", 31])
            ...     dict(driver.get_key_value_store("accounts").all())
            {'ann': 70, 'bank': -100, 'bob': 30}
        """
        at = user_origin()
        _check_functions(keys, fn, at)
        registry = self._registry
        touches = checked_stores(registry, stores, at)
        key_serde = choose_serde("key", key, None, holder="transact", at=at) or self._key
        place = registry.place(
            "transact", parents=(self._name,), at=at, name=name, apart=function_name(fn)
        )
        place["on_error"] = read_on_error(on_error, verb="transact", at=at)
        return _attach(
            self, place, _What(keys=keys, fn=fn, touches=touches, key=key_serde, parent=self._name)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _What:
    """What transactions do, and where their records come from."""

    keys: Callable[[Any, Any], Any] | None
    fn: Callable[[Any, Any, Any], Any] | None
    touches: tuple[StoreSpec, ...]
    key: Serde[Any] | None
    parent: str


def attach_requests(
    stream: Handle[Any, Any], place: NodePlace, touches: tuple[StoreSpec, ...]
) -> TransactedKStream[Any, Any]:
    """Add the route for the transactions that a processor asks for.

    Args:
        stream: The stream that is processed.
        place: The processor's step.
        touches: The stores of the transactions.
    """
    registry = registry_of(stream)
    part = registry.part(place, "requests", place["name"], joint="-")
    requests = OutputNode(**part, output=REQUESTS)
    registry.add(requests)
    step = registry.part(place, "transact", requests.name, joint="-")
    key = stream.serdes[0]
    what = _What(keys=None, fn=None, touches=touches, key=key, parent=requests.name)
    return _attach(stream, step, what)


def _attach(stream: Handle[Any, Any], place: NodePlace, what: _What) -> TransactedKStream[Any, Any]:
    """Add the steps that order transactions, run them, and write what they have changed."""
    registry, step = registry_of(stream), place["name"]

    def part(name: str, parent: str) -> NodePlace:
        return registry.part(place, name, parent, joint="-")

    asked = TransactKeysNode(
        **part("keys", what.parent), keys=what.keys, touches=what.touches, step=step
    )
    registry.add(asked)
    ordered = TransactOrderNode(**part("order", asked.name))
    registry.add(ordered)
    place["parents"] = (ordered.name,)
    key = stream.serdes[0]
    registry.add(TransactNode(**place, fn=what.fn, touches=what.touches, key=key))
    written = BranchNode(**part("written", step), index=WRITTEN)
    registry.add(written)
    registry.add(TransactApplyNode(**part("apply", written.name), touches=what.touches))
    done = BranchNode(**part("done", step), index=RESULTS)
    registry.add(done)
    results = RepartitionNode(**part("results", done.name), key=what.key)
    registry.add(results)
    return registry.handles.transacted(stream, place, results.name, what.key)


def _check_functions(keys: object, fn: object, at: Origin) -> None:
    check_function(keys, _KEY_VALUE, role="keys", verb="transact", at=at)
    check_function(fn, _KEY_VALUE_TRANSACTION, role="fn", verb="transact", at=at)
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn):
        msg = f"transact cannot run {getattr(fn, '__name__', 'fn')}: it is not a plain function"
        raise FunctionError(
            msg,
            at=at,
            why="a transaction is over when its function returns",
            fix="use def and return, and transaction.forward(key, value) for each record to send",
            fields={"role": "fn", "verb": "transact"},
        )


def checked_stores(registry: Registry, stores: object, at: Origin) -> tuple[StoreSpec, ...]:
    """Return the stores of transactions; those given as builders are added first.

    Raises:
        BadOptionError: If one is of another kind, or given twice, or none is given.
        UnknownStoreError: If one was not added.
        DuplicateStoreError: If there is another store of that name.
    """
    listed = [stores] if isinstance(stores, str | StoreBuilder) else _several(stores)
    specs: dict[str, StoreSpec] = {}
    for store in listed:
        spec = _checked_store(registry, store, at)
        if spec.name in specs:
            msg = f"transact is given store {spec.name!r} twice"
            raise _bad_store(msg, at, fix="name each store once")
        specs[spec.name] = spec
    if not specs:
        msg = "transact is given no store"
        raise _bad_store(msg, at, fix="pass stores=[...] with at least one")
    return tuple(specs.values())


def _checked_store(registry: Registry, store: object, at: Origin) -> StoreSpec:
    if not isinstance(store, str | StoreBuilder):
        msg = f"transact cannot use {store!r:.60} as a store"
        raise _bad_store(msg, at, fix="create it with Stores.key_value_store_builder(...)")
    known = registry.store(store) if isinstance(store, str) else None
    if isinstance(store, str) and known is None:
        msg = f"transact uses store {store!r}, which was not added"
        raise UnknownStoreError(
            msg,
            evidence={"stores": ", ".join(registry.store_names) or "none"},
            at=at,
            why="a store is added before a step uses it",
            fix="pass the result of Stores.key_value_store_builder(...)",
            fields={"store": store},
        )
    spec = store.spec() if isinstance(store, StoreBuilder) else known.spec  # pyright: ignore[reportOptionalMemberAccess]
    if not spec.traits.by_key:
        msg = f"transact cannot use store {spec.name!r}: it is a {spec.kind} store"
        raise _bad_store(msg, at, fix="create it with Stores.key_value_store_builder(...)")
    if spec.max_entries is not None or spec.ttl_ms is not None:
        msg = f"transact cannot use store {spec.name!r}: it forgets keys"
        raise _bad_store(msg, at, fix="use Stores.persistent_key_value_store(...)")
    if isinstance(store, StoreBuilder):
        registry.add_store(spec, at, plain=store.plain)
    return spec


def _several(stores: object) -> list[object]:
    return list(cast("Iterable[object]", stores)) if isinstance(stores, Iterable) else [stores]


def _bad_store(what: str, at: Origin, *, fix: str) -> BadOptionError:
    return BadOptionError(
        what,
        at=at,
        why="a transaction reads and writes single keys, and must find all that was ever written",
        fix=fix,
        fields={"option": "stores"},
    )
