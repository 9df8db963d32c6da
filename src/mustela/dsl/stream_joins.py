"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from mustela.api.errors import BadOptionError
from mustela.api.handlers import OnError
from mustela.api.join_windows import JoinWindows, StreamJoined
from mustela.api.joined import Joined
from mustela.api.origin import user_origin
from mustela.dsl.handle import Handle, HandleKind
from mustela.dsl.join_sides import AddJoin, add_global_join, add_stream_join, add_table_join
from mustela.dsl.join_wish import Wish
from mustela.dsl.serdes import said_or_read
from mustela.serdes.base import Serde

if TYPE_CHECKING:
    from mustela.dsl.globalktable import GlobalKTable
    from mustela.dsl.kstream import KStream
    from mustela.dsl.ktable import KTable

__all__ = ["StreamJoins"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")
GK = TypeVar("GK")


class StreamJoins(Handle[K, V]):
    """The joins of `KStream`.

    No join needs topics with equal numbers of partitions: records travel to the lane of their key.
    """

    @overload
    def join(
        self,
        other: KStream[K, W],
        joiner: Callable[[V, W], R],
        windows: JoinWindows,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W], R],
        *,
        joined: Joined[Any, Any, Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[V, W], R],
        *,
        foreign_key: Callable[[V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[V, W], R],
        *,
        foreign_key_with_key: Callable[[K, V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    def join(  # noqa: PLR0913 - options of three kinds of joins
        self,
        other: Any,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        foreign_key: Callable[[Any], Any] | None = None,
        foreign_key_with_key: Callable[[Any, Any], Any] | None = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
        joined: Joined[Any, Any, Any] | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Join each record with its partners in a stream, a table or a global table.

        With a stream, each pair of records of the same key with timestamps within ``windows`` is a
        result, once, when the later of the two arrives; its timestamp is that of the younger one. A
        record that arrives late is joined with whatever is still kept. With a table, each record is
        joined with the row of its key at that moment; with a global table, with the row of the key
        that ``foreign_key`` returns. Records without a key or without a value have no partner, and
        records without a partner are dropped.

        Args:
            other: A stream, a table or a global table.
            joiner: Called with the two values.
            windows: For a stream: which records are joined.
            foreign_key: For a global table: returns the key of the row from the record's value.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: For a stream: the beginning of the names of the join's stores; ``name`` if not
                given.
            stream_joined: For a stream: serdes, names and changelogs as one object.
            joined: For a table: serdes, name and grace period as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import JoinWindows, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> views = builder.stream("views", key=str, value=str)
            >>> clicks = builder.stream("clicks", key=str, value=str)
            >>> near = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(0))
            >>> seen = views.join(clicks, lambda view, click: f"{view}, {click}", windows=near)
            >>> seen.to("seen", value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("views").pipe_input("ann", "shoes", timestamp=0)
            ...     driver.create_input_topic("clicks").pipe_input("ann", "buy", timestamp=7_000)
            ...     driver.create_output_topic("seen").read_key_values_to_list()
            [('ann', 'shoes, buy')]
        """
        wish = Wish(
            kind="inner",
            with_key=False,
            joiner=joiner,
            windows=windows,
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
            joined=joined,
        )
        return self._join(other, wish)

    @overload
    def join_with_key(
        self,
        other: KStream[K, W],
        joiner: Callable[[K, V, W], R],
        windows: JoinWindows,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join_with_key(
        self,
        other: KTable[K, W],
        joiner: Callable[[K, V, W], R],
        *,
        joined: Joined[Any, Any, Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join_with_key(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[K, V, W], R],
        *,
        foreign_key: Callable[[V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join_with_key(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[K, V, W], R],
        *,
        foreign_key_with_key: Callable[[K, V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    def join_with_key(  # noqa: PLR0913 - options of three kinds of joins
        self,
        other: Any,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        foreign_key: Callable[[Any], Any] | None = None,
        foreign_key_with_key: Callable[[Any, Any], Any] | None = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
        joined: Joined[Any, Any, Any] | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Join as `join` does, with a joiner that is also given the key.

        The joiner must not change the key.

        Args:
            other: A stream, a table or a global table.
            joiner: Called with the key and the two values.
            windows: For a stream: which records are joined.
            foreign_key: For a global table: returns the key of the row from the record's value.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: For a stream: the beginning of the names of the join's stores; ``name`` if not
                given.
            stream_joined: For a stream: serdes, names and changelogs as one object.
            joined: For a table: serdes, name and grace period as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int)
            >>> orders = builder.stream("orders", key=str, value=int)
            >>> costs = orders.join_with_key(prices, lambda item, n, cost: f"{item}: {n * cost}")
            >>> costs.to("costs", value=str)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("prices").pipe_input("apple", 3)
            ...     driver.create_input_topic("orders").pipe_input("apple", 2)
            ...     driver.create_output_topic("costs").read_values_to_list()
            ['apple: 6']
        """
        wish = Wish(
            kind="inner",
            with_key=True,
            joiner=joiner,
            windows=windows,
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
            joined=joined,
        )
        return self._join(other, wish)

    @overload
    def left_join(
        self,
        other: KStream[K, W],
        joiner: Callable[[V, W | None], R],
        windows: JoinWindows,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W | None], R],
        *,
        joined: Joined[Any, Any, Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[V, W | None], R],
        *,
        foreign_key: Callable[[V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[V, W | None], R],
        *,
        foreign_key_with_key: Callable[[K, V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    def left_join(  # noqa: PLR0913 - options of three kinds of joins
        self,
        other: Any,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        foreign_key: Callable[[Any], Any] | None = None,
        foreign_key_with_key: Callable[[Any, Any], Any] | None = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
        joined: Joined[Any, Any, Any] | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Join as `join` does, and keep the records of this stream that have no partner.

        For those the joiner's second argument is None. With a stream, such a result is sent when
        the window of its record has closed: when event time has passed the record's timestamp plus
        ``after`` and ``grace``. It is never retracted, even if a partner arrives later. A record
        without a key has no partner, and is a result at once; one without a value is dropped.

        Args:
            other: A stream, a table or a global table.
            joiner: Called with the two values, of which the second may be None.
            windows: For a stream: which records are joined.
            foreign_key: For a global table: returns the key of the row from the record's value.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: For a stream: the beginning of the names of the join's stores; ``name`` if not
                given.
            stream_joined: For a stream: serdes, names and changelogs as one object.
            joined: For a table: serdes, name and grace period as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import JoinWindows, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=str)
            >>> payments = builder.stream("payments", key=str, value=int)
            >>> hour = JoinWindows.of_time_difference(timedelta(hours=1), grace=timedelta(0))
            >>> paid = orders.left_join(payments, lambda order, paid: [order, paid], windows=hour)
            >>> paid.filter(lambda _id, pair: pair[1] is None).to("unpaid", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     order = driver.create_input_topic("orders")
            ...     order.pipe_input("o-1", "apples", timestamp=0)
            ...     order.pipe_input("o-2", "pears", timestamp=3_600_001)
            ...     driver.create_output_topic("unpaid").read_key_values_to_list()
            [('o-1', ['apples', None])]
        """
        wish = Wish(
            kind="left",
            with_key=False,
            joiner=joiner,
            windows=windows,
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
            joined=joined,
        )
        return self._join(other, wish)

    @overload
    def left_join_with_key(
        self,
        other: KStream[K, W],
        joiner: Callable[[K, V, W | None], R],
        windows: JoinWindows,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join_with_key(
        self,
        other: KTable[K, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        joined: Joined[Any, Any, Any] | None = None,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join_with_key(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        foreign_key: Callable[[V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join_with_key(
        self,
        other: GlobalKTable[GK, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        foreign_key_with_key: Callable[[K, V], GK | None],
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]: ...
    def left_join_with_key(  # noqa: PLR0913 - options of three kinds of joins
        self,
        other: Any,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        foreign_key: Callable[[Any], Any] | None = None,
        foreign_key_with_key: Callable[[Any, Any], Any] | None = None,
        value: Any = None,
        name: str | None = None,
        store: str | None = None,
        joined: Joined[Any, Any, Any] | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Join as `left_join` does, with a joiner that is also given the key.

        The joiner must not change the key.

        Args:
            other: A stream, a table or a global table.
            joiner: Called with the key and the two values, of which the second may be None.
            windows: For a stream: which records are joined.
            foreign_key: For a global table: returns the key of the row from the record's value.
            foreign_key_with_key: The same, called with key and value.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: For a stream: the beginning of the names of the join's stores; ``name`` if not
                given.
            stream_joined: For a stream: serdes, names and changelogs as one object.
            joined: For a table: serdes, name and grace period as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> names = builder.table("names", key=str, value=str)
            >>> visits = builder.stream("visits", key=str, value=str)
            >>> greetings = visits.left_join_with_key(
            ...     names, lambda user, page, name: f"{name or user} on {page}"
            ... )
        """
        wish = Wish(
            kind="left",
            with_key=True,
            joiner=joiner,
            windows=windows,
            foreign_key=foreign_key,
            foreign_key_with_key=foreign_key_with_key,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
            joined=joined,
        )
        return self._join(other, wish)

    def outer_join(  # noqa: PLR0913 - the options of the join
        self,
        other: KStream[K, W],
        joiner: Callable[[V | None, W | None], R],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]:
        """Join two streams as `join` does, and keep the records of both that have no partner.

        For those the joiner's other argument is None. Records of this stream wait as in
        `left_join`; those of the other stream wait until event time has passed their timestamp plus
        ``before`` and ``grace``. A record without a key has no partner, and is a result at once;
        one without a value is dropped.

        Args:
            other: The other stream.
            joiner: Called with the two values, of which either may be None.
            windows: Which records are joined.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: The beginning of the names of the join's stores; ``name`` if not given.
            stream_joined: Serdes, names and changelogs as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import JoinWindows, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> ours = builder.stream("ours", key=str, value=int)
            >>> theirs = builder.stream("theirs", key=str, value=int)
            >>> minute = JoinWindows.of_time_difference(timedelta(minutes=1), grace=timedelta(0))
            >>> both = ours.outer_join(theirs, lambda our, their: [our, their], windows=minute)
            >>> both.filter(lambda _id, pair: pair[0] != pair[1]).to("differ", value=list)
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     driver.create_input_topic("ours").pipe_input("t-1", 5, timestamp=0)
            ...     driver.create_input_topic("theirs").pipe_input("t-1", 5, timestamp=10)
            ...     driver.create_input_topic("theirs").pipe_input("t-2", 7, timestamp=20)
            ...     driver.create_input_topic("ours").pipe_input("t-3", 1, timestamp=70_000)
            ...     driver.create_output_topic("differ").read_key_values_to_list()
            [('t-2', [None, 7])]
        """
        wish = Wish(
            kind="outer",
            with_key=False,
            joiner=joiner,
            windows=windows,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
        )
        return self._join(other, wish)

    def outer_join_with_key(  # noqa: PLR0913 - the options of the join
        self,
        other: KStream[K, W],
        joiner: Callable[[K, V | None, W | None], R],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        value: type[R] | Serde[R] | None = None,
        name: str | None = None,
        store: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, R]:
        """Join as `outer_join` does, with a joiner that is also given the key.

        The joiner must not change the key.

        Args:
            other: The other stream.
            joiner: Called with the key and the two values, of which either may be None.
            windows: Which records are joined.
            value: Type or serde of the results, if a later step cannot know it otherwise.
            name: Step name; made from the step's place if not given.
            store: The beginning of the names of the join's stores; ``name`` if not given.
            stream_joined: Serdes, names and changelogs as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The stream of results, in the lane of their key.

        Raises:
            BadOptionError: If an option does not fit the other side, or one is missing.
            JoinKeysError: If the two sides encode their keys differently.
            FunctionError: If the joiner cannot be called with its arguments.
            DuplicateNameError: If another step already has this name.
            DuplicateStoreError: If another step has a store of that name.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import JoinWindows, StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> ours = builder.stream("ours", key=str, value=int)
            >>> theirs = builder.stream("theirs", key=str, value=int)
            >>> minute = JoinWindows.of_time_difference(timedelta(minutes=1), grace=timedelta(0))
            >>> told = ours.outer_join_with_key(
            ...     theirs, lambda id_, our, their: f"{id_}: {our} / {their}", windows=minute
            ... )
        """
        wish = Wish(
            kind="outer",
            with_key=True,
            joiner=joiner,
            windows=windows,
            value=value,
            name=name,
            store=store,
            stream_joined=stream_joined,
            on_error=on_error,
        )
        return self._join(other, wish)

    def _join(self, other: Any, wish: Wish) -> KStream[Any, Any]:
        """Add the join with whatever the other side is."""
        at = user_origin()
        self._check_builder(other, verb=wish.verb, at=at)
        handle: Handle[Any, Any] = other
        what = handle._kind
        if wish.kind == "outer" and what != "stream":
            msg = f"{wish.verb} cannot join {self._name!r} with the {what} {handle.name!r}"
            raise BadOptionError(
                msg,
                at=at,
                why="a change of a table is not a record that could be a result without a partner",
                fix="use left_join, or make a table of the stream with to_table() and join tables",
                fields={"verb": wish.verb, "other": handle.name},
            )
        wish = wish.of_global_table() if what == "global table" else wish
        for option, why in _REFUSED[what].items():
            if getattr(wish, option) is not None:
                msg = f"{wish.verb} with the {what} {handle.name!r} takes no {option}="
                fields = {"verb": wish.verb, "option": option}
                raise BadOptionError(msg, at=at, why=why, fix=f"leave out {option}=", fields=fields)
        step, key = _ADD[what](self, handle, wish, at)
        value = said_or_read("value", wish.value, wish.joiner, step=step, at=at)
        return self._registry.handles.stream(step, key, value)


_ROWS = "a record is joined with the row that the {} has at that moment"
_STREAMS = "only a join with another stream keeps the records of both sides"
_GLOBAL = "only a global table can be looked up by another key than the record's"
_TABLES = "{}= is for joins with a table; streams are joined by their keys"
_REFUSED: Final[Mapping[HandleKind, Mapping[str, str]]] = {
    "stream": {
        option: _TABLES.format(option)
        for option in ("foreign_key", "foreign_key_with_key", "joined")
    },
    "table": {
        "windows": _ROWS.format("table"),
        **dict.fromkeys(("store", "stream_joined"), _STREAMS),
        **dict.fromkeys(("foreign_key", "foreign_key_with_key"), _GLOBAL),
    },
    "global table": {
        "windows": _ROWS.format("global table"),
        **dict.fromkeys(("store", "stream_joined"), _STREAMS),
        "joined": "a global table has its own rows, so nothing travels and nothing waits",
    },
}
"""By the kind of the other side: the options that a join with it does not take, and why."""

_ADD: Final[Mapping[HandleKind, AddJoin]] = {
    "stream": add_stream_join,
    "table": add_table_join,
    "global table": add_global_join,
}
"""By the kind of the other side: what adds the step of such a join."""
