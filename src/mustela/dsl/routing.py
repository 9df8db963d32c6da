"""Where records of a stream go: branches, lanes, tables, the console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

from mustela.api.errors import BadOptionError, DuplicateNameError, SplitEndedError
from mustela.api.functions import check_function, function_name
from mustela.api.handlers import Handler, OnError, read_on_error
from mustela.api.names import check_name
from mustela.api.option import Option
from mustela.api.options import (
    Materialized,
    Partitioner,
    Printed,
    Repartitioned,
    options_or,
)
from mustela.api.origin import user_origin
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.handle import Handle
from mustela.dsl.materialize import KEY_VALUE_KINDS, store_spec
from mustela.dsl.missing import VerbStage
from mustela.dsl.registry import Registry
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.routing import BranchNode, PrintNode, RepartitionNode, SplitNode
from mustela.topology.table import StreamToTableNode

if TYPE_CHECKING:
    # a default for a type variable is newer than Python 3.11
    from typing_extensions import TypeVar

    from mustela.dsl.kstream import KStream
    from mustela.dsl.ktable import KTable

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["Branched", "BranchedKStream", "Routing"]

_KEY_VALUE = ("key", "value")
_PARTITIONER = ("topic", "key", "value", "partitions")


@dataclass(frozen=True, kw_only=True)
class Branched(Option, Generic[K, V]):
    """What is done with a branch of a split stream.

    Attributes:
        name: Name of the branch.
        function: Called with the branch's stream; what it returns is put into the result.
        consumer: Called with the branch's stream, which is then not in the result.

    Example:
        >>> from mustela import StreamsBuilder
        >>> words = StreamsBuilder().stream("words", key=str, value=str)
        >>> loud = Branched(name="loud", function=lambda stream: stream.map_values(str.upper))
        >>> split = words.split().branch(lambda _key, word: word.endswith("!"), branched=loud)
        >>> sorted(split.default_branch())
        ['default', 'loud']
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None
    consumer: Callable[[KStream[K, V]], object] | None = None


class Routing(Handle[K, V]):
    """What `KStream` can do to route its records: split, repartition, to_table, print."""

    def split(
        self, *, name: str | None = None, on_error: OnError | None = None
    ) -> BranchedKStream[K, V]:
        """Begin to split the stream: each record goes to the first branch that accepts it.

        Add branches with `BranchedKStream.branch`, and end with
        `BranchedKStream.default_branch` or `BranchedKStream.no_default_branch`.

        Args:
            name: Step name, and the beginning of the names of the branches' steps; made from the
                step's place if not given. The result also contains a branch under this name
                followed by the branch's own, as in Kafka Streams.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The split, to which branches are added.

        Raises:
            DuplicateNameError: If another step already has this name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=int)
            >>> sizes = orders.split(name="sizes")
            >>> sizes = sizes.branch(lambda _id, total: total > 99, name="large")
            >>> streams = sizes.branch(lambda _id, total: total > 9, name="middle").default_branch()
            >>> streams["large"].to("large-orders")
            >>> streams["default"].to("small-orders")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     order = driver.create_input_topic("orders")
            ...     order.pipe_key_value_list([("o-1", 120), ("o-2", 3), ("o-3", 40)])
            ...     driver.create_output_topic("large-orders").read_values_to_list()
            ...     driver.create_output_topic("small-orders").read_values_to_list()
            [120]
            [3]
        """
        at = user_origin()
        place = self._registry.place("split", parents=(self._name,), at=at, name=name)
        self._registry.begin(place["name"], at)
        handler = read_on_error(on_error, verb="split", at=at)
        return BranchedKStream(self, place["name"], at, explicit=name is not None, on_error=handler)

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        name: str | None = None,
        partitioner: Partitioner | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Send each record to the lane of its key now, with the serdes given here.

        Steps that work by key do this themselves, so it is rarely needed: to give the serdes of new
        keys once for all later steps, or to spread work after a step. No topic is written, and the
        records of a key stay in order. Those without a key are dropped and counted, unless a later
        left or outer join has results for them.

        Args:
            key: Type or serde of the keys; the stream's if not given.
            value: Type or serde of the values; the stream's if not given.
            name: Step name; made from the step's place if not given.
            partitioner: Called with the step's name, key, value and the number of partitions. An
                empty set drops the record, and several partitions duplicate it; which ones they are
                makes no difference, because the key alone decides the lane.
            repartitioned: These options as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The same records. A later grouping or join by the same key does not move them again.

        Raises:
            DuplicateNameError: If another step already has this name.
            OptionConflictError: If an option is given twice and differs.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=int)
            >>> by_total = orders.select_key(lambda _id, total: total).repartition(key=int)
            >>> by_total.to("totals")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", 30)
            ...     driver.create_output_topic("totals").read_key_values_to_list()
            [(30, 30)]
        """
        at = user_origin()
        holder = "Repartitioned"
        options = options_or(repartitioned, Repartitioned[Any, Any](), at=at)
        said = choose("name", name, options.name, holder=holder, at=at)
        chooser = choose("partitioner", partitioner, options.partitioner, holder=holder, at=at)
        if chooser is not None:
            check_function(chooser, _PARTITIONER, role="partitioner", verb="repartition", at=at)
        _check_partitions(options.partitions, at=at)
        key_serde = choose_serde("key", key, options.key, holder=holder, at=at) or self._key
        value_serde = choose_serde("value", value, options.value, holder=holder, at=at)
        value_serde = value_serde or self._value
        place = self._registry.place("repartition", parents=(self._name,), at=at, name=said)
        place["on_error"] = read_on_error(on_error, verb="repartition", at=at)
        self._registry.add(
            RepartitionNode(
                **place,
                key=key_serde,
                value=value_serde,
                partitions=options.partitions,
                partitioner=chooser,
                null_keys=False,
            )
        )
        return self._registry.handles.stream(place["name"], key_serde, value_serde)

    def to_table(
        self,
        materialized: Materialized[K, V] | None = None,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Interpret the records as changes of a table: the newest value of each key; null deletes.

        Records without a key are dropped. The table has a store if the table or the store is named
        here, or if a later step needs one. Records travel to the lane of their key.

        Args:
            key: Type or serde of the keys; the stream's if not given.
            value: Type or serde of the values; the stream's if not given.
            name: Step name, and the store's name if ``store`` is not given.
            store: Name of the store.
            materialized: Options of the store.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The table.

        Raises:
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> moves = builder.stream("moves", key=str, value=str)
            >>> places = moves.map_values(str.title).to_table(value=str, store="places")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("moves").pipe_input("ann", "oslo")
            ...     driver.get_key_value_store("places").get("ann")
            'Oslo'
        """
        at = user_origin()
        options = options_or(materialized, Materialized[Any, Any](), at=at)
        holder = "Materialized"
        key_serde = choose_serde("key", key, options.key, holder=holder, at=at) or self._key
        value_serde = choose_serde("value", value, options.value, holder=holder, at=at)
        value_serde = value_serde or self._value
        apart = store or options.store_name
        place = self._registry.place(
            "to_table", parents=(self._name,), at=at, name=name, apart=apart
        )
        place["on_error"] = read_on_error(on_error, verb="to_table", at=at)
        spec, explicit = store_spec(
            place,
            options,
            store=store,
            key=key_serde,
            value=value_serde,
            kinds=KEY_VALUE_KINDS,
        )
        self._registry.add(
            StreamToTableNode(
                **place,
                key=key_serde,
                value=value_serde,
                store=spec if explicit or spec.ttl_ms is not None else None,
                explicit_store=explicit,
            )
        )
        return self._registry.handles.table(place["name"], key_serde, value_serde)

    def print(
        self,
        printed: Printed[K, V] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Write each record as a line ``[label]: key, value``; no records are passed on.

        Lines are not part of the transaction: they are repeated when an epoch is run again. On
        Spark they appear where the worker runs: in its standard output, or its file.

        Args:
            printed: Where and how to print; standard output, with the stream's name as the label,
                if not given.
            name: Step name; made from the step's place if not given.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Raises:
            DuplicateNameError: If another step already has this name.
            BadOptionError: If path or label is not a string.
            FunctionError: If a mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import Printed, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.print(Printed.to_sys_out().with_label("seen"))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "sun")
            [seen]: a, sun
        """
        at = user_origin()
        options = options_or(printed, Printed[Any, Any](), at=at)
        said = choose("name", name, options.name, holder="Printed", at=at)
        for option, text in (("path", options.path), ("label", options.label)):
            if not isinstance(cast("object", text), str | None) or (option, text) == ("path", ""):
                msg = f"Printed cannot have {option}={text!r}"
                fix = f"give it a string, or leave out {option}="
                raise BadOptionError(msg, at=at, fix=fix, fields={"option": option, "value": text})
        if options.mapper is not None:
            check_function(options.mapper, _KEY_VALUE, role="mapper", verb="print", at=at)
        place = self._registry.place(
            "print", parents=(self._name,), at=at, name=said, apart=options.label
        )
        place["on_error"] = read_on_error(on_error, verb="print", at=at)
        self._registry.add(
            PrintNode(
                **place,
                label=self._name if options.label is None else options.label,
                path=options.path,
                mapper=options.mapper,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch(Generic[K, V]):
    """A branch until the split is ended."""

    name: str
    predicate: Callable[[K, V], object] | None
    options: Branched[K, V]
    at: Origin


class Branches(dict[str, "KStream[K, V]"], Generic[K, V]):
    """The branches of a split by name; Kafka Streams' names find them too.

    There the name of the split precedes that of the branch, and a branch without a name has its
    number: 0 for the default branch.

    Example:
        >>> from mustela import StreamsBuilder
        >>> words = StreamsBuilder().stream("words", key=str, value=str)
        >>> split = words.split(name="by-").branch(lambda key, _word: key == "a", name="a")
        >>> branches = split.default_branch()
        >>> branches["by-a"].name == branches["a"].name, branches["by-0"].name
        (True, 'by-.default')
    """

    def __init__(self, kafkas: Mapping[str, str]) -> None:
        super().__init__()
        self._kafkas = dict(kafkas)

    def __missing__(self, name: str) -> KStream[K, V]:
        """Return the branch that Kafka Streams would find by this name."""
        own = self._kafkas.get(name)
        if own is None or own not in self:
            raise KeyError(name)
        return self[own]


class BranchedKStream(VerbStage, Generic[K, V]):
    """A stream that is being split; made by `KStream.split`.

    Each record goes to the first branch whose predicate is true for it. A branch has the name that
    is given to it, else the name of its predicate, else ``branch``; the default branch is called
    ``default`` unless it is given another name.

    Args:
        stream: What is split.
        name: Name of the step.
        at: The line on which the split begins.
        explicit: Whether the user gave the name.
        on_error: What happens to a record on which a predicate raises.
    """

    def __init__(
        self,
        stream: Handle[K, V],
        name: str,
        at: Origin,
        *,
        explicit: bool,
        on_error: Handler | None = None,
    ) -> None:
        self._stream = stream
        self._on_error: Handler | None = on_error
        self._name = name
        self._at = at
        self._explicit = explicit
        self._branches: list[_Branch[K, V]] = []
        self._ended = False

    def _stage_name(self) -> str:
        return self._name

    def branch(
        self,
        predicate: Callable[[K, V], object],
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        function: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None,
        consumer: Callable[[KStream[K, V]], object] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records that no earlier branch accepts.

        Args:
            predicate: Called with key and value, of which each may be None.
            name: The branch's name, in the result and as the end of its step's name.
            function: Called with the branch's stream; its result replaces the stream in the result
                of the split, and None leaves the branch out.
            consumer: Called with the branch's stream, which is then not in the result.
            branched: Name, function and consumer as one object.

        Returns:
            This object, for the next branch.

        Raises:
            DuplicateNameError: If another branch has the same name.
            FunctionError: If the predicate cannot be called with a key and a value.
            SplitEndedError: If the split is ended.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> def long(_key, word):
            ...     return len(word) > 3
            >>> branches = words.split().branch(long, consumer=lambda stream: stream.to("long"))
            >>> list(branches.default_branch(name="short"))
            ['short']
        """
        at = user_origin()
        self._check_open(at)
        check_function(predicate, _KEY_VALUE, role="predicate", verb="branch", at=at)
        options = _branched(name, function, consumer, branched, verb="branch", at=at)
        self._add(options.name or function_name(predicate) or "branch", predicate, options, at)
        return self

    def default_branch(
        self,
        branched: Branched[K, V] | None = None,
        *,
        name: str | None = None,
        function: Callable[[KStream[K, V]], KStream[K, V] | None] | None = None,
        consumer: Callable[[KStream[K, V]], object] | None = None,
    ) -> dict[str, KStream[K, V]]:
        """End the split: records that no branch accepts get their own branch.

        Args:
            name: The branch's name; ``default`` if not given.
            function: As for `branch`.
            consumer: As for `branch`.
            branched: Name, function and consumer as one object.

        Returns:
            The branches by name, except those that a consumer took.

        Raises:
            DuplicateNameError: If another branch has the same name.
            SplitEndedError: If the split has already ended.

        Example:
            >>> from mustela import StreamsBuilder
            >>> words = StreamsBuilder().stream("words", key=str, value=str)
            >>> split = words.split(name="words-by").branch(lambda key, _word: key == "a", name="a")
            >>> {name: stream.name for name, stream in split.default_branch().items()}
            {'a': 'words-by.a', 'default': 'words-by.default'}
        """
        at = user_origin()
        self._check_open(at)
        options = _branched(name, function, consumer, branched, verb="default_branch", at=at)
        self._add(options.name or "default", None, options, at)
        return self._end()

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split: records that no branch accepts are dropped.

        Returns:
            The branches by name, except those that a consumer took.

        Raises:
            SplitEndedError: If the split has already ended.

        Example:
            >>> from mustela import StreamsBuilder
            >>> words = StreamsBuilder().stream("words", key=str, value=str)
            >>> split = words.split().branch(lambda key, _word: key == "a", name="a")
            >>> list(split.no_default_branch())
            ['a']
        """
        self._check_open(user_origin())
        return self._end()

    @property
    def _registry(self) -> Registry:
        return self._stream._registry  # pyright: ignore[reportPrivateUsage] - a part of the stream

    def _check_open(self, at: Origin) -> None:
        if self._ended:
            msg = f"split {self._name!r} has already ended"
            raise SplitEndedError(
                msg,
                evidence={"split": self._at},
                at=at,
                why="its end said what happens to records that belong to no branch",
                fix="add all branches before default_branch() or no_default_branch()",
                fields={"name": self._name},
            )

    def _add(
        self,
        name: str,
        predicate: Callable[[K, V], object] | None,
        options: Branched[K, V],
        at: Origin,
    ) -> None:
        check_name(name, what="branch", at=at)
        for other in self._branches:
            if other.name == name:
                msg = f"two branches of {self._name!r} are named {name!r}"
                raise DuplicateNameError(
                    msg,
                    evidence={"first": other.at},
                    at=at,
                    why="a branch is found by its name, and its step's name ends with it",
                    fix='give each its own name: branch(..., name="...")',
                    fields={"name": name, "first": other.at},
                )
        self._branches.append(_Branch(name=name, predicate=predicate, options=options, at=at))

    def _kafkas_names(self) -> dict[str, str]:
        """Return the names of the branches by Kafka Streams' names."""
        prefix = self._name if self._explicit else ""
        named: dict[str, str] = {}
        for number, branch in enumerate(self._branches, start=1):
            place = number if branch.predicate is not None else 0
            named[f"{prefix}{branch.options.name or place}"] = branch.name
        return named

    def _end(self) -> dict[str, KStream[K, V]]:
        stream, registry = self._stream, self._registry
        place = registry.place(
            "split",
            parents=(stream.name,),
            at=self._at,
            name=self._name if self._explicit else None,
        )
        place["on_error"] = self._on_error
        predicates = [branch.predicate for branch in self._branches]
        registry.add(
            SplitNode(
                **place,
                predicates=tuple(predicate for predicate in predicates if predicate is not None),
                default=None in predicates,
            )
        )
        self._ended = True
        registry.end(self._name)
        result = Branches[K, V](self._kafkas_names())
        for index, branch in enumerate(self._branches):
            verb = branch.name
            place = registry.place(verb, parents=(self._name,), at=branch.at)
            place["explicit_name"] = branch.options.name is not None
            registry.add(BranchNode(**place, index=index))
            made: KStream[K, V] = registry.handles.stream(
                place["name"],
                stream._key,  # pyright: ignore[reportPrivateUsage]
                stream._value,  # pyright: ignore[reportPrivateUsage]
            )
            kept = _handed_on(made, branch.options, at=branch.at)
            if kept is not None:
                result[branch.name] = kept
        return result


def _handed_on(
    stream: KStream[K, V], options: Branched[K, V], *, at: Origin
) -> KStream[K, V] | None:
    """Pass a branch to its function or consumer; return what is in the result, if anything.

    Raises:
        BadOptionError: If the function returns something other than a stream or None.
    """
    if options.consumer is not None:
        options.consumer(stream)
        return None
    if options.function is None:
        return stream
    made = options.function(stream)
    if made is not None and not isinstance(cast("object", made), Routing):
        msg = f"the function of branch {stream.name!r} returns {made!r:.60}"
        raise BadOptionError(
            msg,
            at=at,
            why="its result replaces the branch in the result of the split",
            fix="return a stream, or None to leave the branch out; a consumer returns nothing",
            fields={"option": "function"},
        )
    return made


def _branched(
    name: str | None,
    function: Callable[[KStream[K, V]], KStream[K, V] | None] | None,
    consumer: Callable[[KStream[K, V]], object] | None,
    branched: Branched[K, V] | None,
    *,
    verb: str,
    at: Origin,
) -> Branched[K, V]:
    given = options_or(branched, Branched[Any, Any](), at=at)
    options = Branched[K, V](
        name=choose("name", name, given.name, holder="Branched", at=at),
        function=choose("function", function, given.function, holder="Branched", at=at),
        consumer=choose("consumer", consumer, given.consumer, holder="Branched", at=at),
    )
    for role, called in (("function", options.function), ("consumer", options.consumer)):
        if called is not None:
            check_function(called, ("stream",), role=role, verb=verb, at=at)
    if options.function is not None and options.consumer is not None:
        msg = f"{verb} has a function and a consumer"
        raise BadOptionError(
            msg,
            at=at,
            why="a function gives the stream that goes into the result, a consumer keeps it",
            fix="leave out one of them",
            fields={"option": "consumer"},
        )
    return options


def _check_partitions(partitions: object, *, at: Origin) -> None:
    if partitions is None or (isinstance(partitions, int) and partitions > 0):
        return
    msg = f"{partitions!r} is not a number of partitions"
    raise BadOptionError(
        msg,
        at=at,
        fix="use a whole number above 0",
        fields={"option": "partitions", "value": partitions},
    )
