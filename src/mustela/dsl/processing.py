"""Steps of a stream that are written as processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustela.api.errors import BadOptionError
from mustela.api.functions import function_name
from mustela.api.handlers import OnError, read_on_error
from mustela.api.origin import user_origin
from mustela.api.outputs import SideOutput
from mustela.api.serdes import choose_serde
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.registry import AddedStore, NodePlace
from mustela.dsl.serdes import said_or_read
from mustela.dsl.shared_stores import attach_updates, checked_updates, store_names
from mustela.dsl.suppliers import connected_stores, output_names, supplied, timers_of, uses_of
from mustela.dsl.transact import attach_requests, checked_stores
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.processor import ProcessorNode

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from mustela.api.processor import ProcessorSupplier
    from mustela.api.stores import StoreBuilder
    from mustela.dsl.processed import ProcessedKStream
    from mustela.dsl.transacted import TransactedKStream

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    K2 = TypeVar("K2", default=Any)
    W = TypeVar("W", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    K2 = TypeVar("K2")
    W = TypeVar("W")

__all__ = ["Processing", "Ties", "attach_processor"]


class Processing(Handle[K, V]):
    """What `KStream` can do with processors: process, process_values."""

    def process(  # noqa: PLR0913 - what a processor uses, and what comes out of it
        self,
        supplier: ProcessorSupplier,
        *,
        stores: Sequence[str | StoreBuilder] = (),
        key: type[K2] | Serde[K2] | None = None,
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        outputs: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        reads: Sequence[str] = (),
        updates: Sequence[str | StoreBuilder] = (),
        replies: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        transacts: str | StoreBuilder | Sequence[str | StoreBuilder] = (),
        on_error: OnError | None = None,
    ) -> ProcessedKStream[K2, W]:
        """Handle each record with the user's own processor, which may keep state.

        With stores, records first travel to the lane of their key, and the processor sees those of
        its key group in order. Without stores, they do not travel. The processor may forward other
        keys, so a later grouping or join sends records to the lane of their new key; use
        `process_values` if keys do not change.

        Args:
            supplier: A `Processor` class, or a function without arguments that returns a new
                processor on each call. The stores of its ``stores()`` are added and connected.
            stores: Names of stores that were added with `StreamsBuilder.add_state_store`, or that
                tables have; or store builders, which are added here.
            key: Type or serde of the keys that it forwards.
            value: Type or serde of the values that it forwards.
            name: Step name in `describe()`, metrics and error messages; made from the step's
                place if not given.
            outputs: Names of side outputs, with their types.
            reads: Names of stores of any steps, in which it reads any key with
                `ProcessorContext.any_key_store`.
            updates: Stores in which it changes keys in their own lanes with
                `ProcessorContext.update`; names, or store builders, which are added here.
            replies: Names of the outputs that receive the results of such changes, with the types
                of their keys; see `ProcessedKStream.reply`.
            transacts: The stores of the transactions for which it asks with
                `ProcessorContext.transact`; names, or store builders, which are added here.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of forwarded records; its ``output(name)`` is a side output.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the supplier does not return a processor, or returns the same one
                twice.
            UnknownStoreError: If a store was not added.
            SharedStoreError: If a store cannot be updated.

        Example:
            >>> from mustela import Stores, StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Running(ContextualProcessor):
            ...     def process(self, record):
            ...         sums = self.context.state_store("sums")
            ...         total = sums.get(record.key, 0) + record.value
            ...         sums.put(record.key, total)
            ...         self.context.forward(record.with_value(total))
            >>> builder = StreamsBuilder()
            >>> sums = Stores.persistent_key_value_store("sums")
            >>> sums = Stores.key_value_store_builder(sums, key=str, value=int)
            >>> builder = builder.add_state_store(sums)
            >>> numbers = builder.stream("numbers", key=str, value=int)
            >>> running = numbers.process(Running, stores=["sums"], key=str, value=int)
            >>> running.to("sums-so-far")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("numbers").pipe_key_value_list([("a", 1), ("a", 2)])
            ...     driver.create_output_topic("sums-so-far").read_values_to_list()
            [1, 3]
        """
        ties = Ties(stores, outputs, reads, updates, replies, transacts)
        return self._process("process", supplier, (name, on_error), ties, (key, value))

    def process_values(  # noqa: PLR0913 - what a processor uses, and what comes out of it
        self,
        supplier: ProcessorSupplier,
        *,
        stores: Sequence[str | StoreBuilder] = (),
        value: type[W] | Serde[W] | None = None,
        name: str | None = None,
        outputs: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        reads: Sequence[str] = (),
        updates: Sequence[str | StoreBuilder] = (),
        replies: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = (),
        transacts: str | StoreBuilder | Sequence[str | StoreBuilder] = (),
        on_error: OnError | None = None,
    ) -> ProcessedKStream[K, W]:
        """Handle each record with a processor that cannot change keys; see `process`.

        A later grouping or join by the same key needs no travel because of this step.

        Args:
            supplier: A `FixedKeyProcessor` class, or a function without arguments that returns a
                new one on each call.
            stores: As for `process`.
            value: As for `process`.
            name: As for `process`.
            outputs: As for `process`.
            reads: As for `process`.
            updates: As for `process`.
            replies: As for `process`.
            transacts: As for `process`.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of forwarded records.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the supplier does not return a processor, or returns the same one
                twice.
            UnknownStoreError: If a store was not added.
            SharedStoreError: If a store cannot be updated.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Length(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(len(record.value)))
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.process_values(Length, value=int).to("lengths")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "sun")
            ...     driver.create_output_topic("lengths").read_key_values_to_list()
            [('a', 3)]
        """
        ties = Ties(stores, outputs, reads, updates, replies, transacts)
        return self._process("process_values", supplier, (name, on_error), ties, (None, value))

    def _process(
        self,
        verb: str,
        supplier: ProcessorSupplier,
        named: tuple[str | None, OnError | None],
        ties: Ties,
        gives: tuple[Any, Any],
    ) -> ProcessedKStream[Any, Any]:
        at = user_origin()
        name, on_error = named
        handler = read_on_error(on_error, verb=verb, at=at)
        place = self._registry.place(
            verb, parents=(self._name,), at=at, name=name, apart=function_name(supplier)
        )
        place["on_error"] = handler
        step = place["name"]
        key = said_or_read("key", gives[0], None, step=step, at=at)
        value = said_or_read("value", gives[1], None, step=step, at=at)
        return attach_processor(self, place, supplier, ties, verb=verb)._typed(key, value)  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True, slots=True)
class Ties:
    """The stores and outputs of a processor, as the user gave them."""

    stores: Sequence[str | StoreBuilder] = ()
    outputs: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = ()
    reads: Sequence[str] = ()
    updates: Sequence[str | StoreBuilder] = ()
    replies: Mapping[str, SideOutput[Any, Any]] | Iterable[str] = ()
    transacts: str | StoreBuilder | Sequence[str | StoreBuilder] = ()


@dataclass(frozen=True, slots=True)
class Replies:
    """How a processor's step receives the results of its changes and its transactions.

    Attributes:
        serdes: Serdes of keys and values of each reply, by its name.
        makers: The steps that make the changes.
        requests: What its transactions send on.
    """

    serdes: Mapping[str, tuple[Any, Any]]
    makers: tuple[str, ...]
    requests: TransactedKStream[Any, Any] | None = None


def attach_processor(
    stream: Handle[Any, Any],
    place: NodePlace,
    supplier: ProcessorSupplier,
    ties: Ties,
    *,
    verb: str,
) -> ProcessedKStream[Any, Any]:
    """Add a processor's step, with the routes for all that it sends to other lanes.

    Args:
        stream: The input: its serdes are those of the processor's records.
        place: The place of the step.
        supplier: Makes the processors.
        ties: Its stores and outputs.
        verb: The method; ``process_values`` takes a `FixedKeyProcessor`.
    """
    registry = registry_of(stream)
    key, value = stream.serdes
    at, step = place["origin"], place["name"]
    fixed = verb == "process_values"
    given = supplied(registry, supplier, step=step, verb=verb, at=at)
    outputs = {
        output: _serdes(said, key, value, at)
        for output, said in output_names(ties.outputs, at=at).items()
    }
    used = connected_stores(registry, given.stores, ties.stores, step=step, at=at)
    changed = checked_updates(registry, ties.updates, step=step, at=at)
    touched = checked_stores(registry, ties.transacts, at) if ties.transacts else ()
    replies = _reply_serdes(ties.replies, changed, at)
    registry.add(
        ProcessorNode(
            **place,
            supplier=given.supplier,
            **uses_of(used, step=step),
            fixed_key=fixed,
            key=key,
            value=value,
            outputs=tuple(outputs),
            reads=store_names(ties.reads, option="reads", at=at),
            updates=tuple(store.spec.name for store in changed),
            replies=tuple(replies),
            transacts=tuple(spec.name for spec in touched),
            timers=timers_of(given, step, key),
            asks=given.asks,
        )
    )
    makers = attach_updates(registry, step, changed, at)
    requests = attach_requests(stream, place, touched) if touched else None
    told = Replies(replies, tuple(makers.values()), requests)
    return registry.handles.processed(step, key if fixed else None, outputs, told)


def _serdes(
    said: Any, key: Serde[Any] | None, value: Serde[Any] | None, at: Origin
) -> tuple[Any, Any]:
    options = SideOutput[Any, Any]() if said is None else said
    holder = "SideOutput"
    return (
        choose_serde("key", None, options.key, holder=holder, at=at) or key,
        choose_serde("value", None, options.value, holder=holder, at=at) or value,
    )


def _reply_serdes(
    replies: Mapping[str, SideOutput[Any, Any]] | Iterable[str],
    changed: Sequence[AddedStore],
    at: Origin,
) -> dict[str, tuple[Any, Any]]:
    names = output_names(replies, at=at)
    if names and not changed:
        msg = f"process is given replies ({', '.join(names)}) but no updates"
        raise BadOptionError(
            msg,
            at=at,
            why="a reply says what a change has done",
            fix="name the stores that are changed: updates=[...]; or is it outputs=[...]?",
            fields={"option": "replies"},
        )
    key = changed[0].spec.key_serde if changed else None
    return {name: _serdes(said, key, None, at) for name, said in names.items()}
