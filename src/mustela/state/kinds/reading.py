"""What the read-only handles of all kinds share: how a call gets at the rows, and iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from mustela.state.interfaces import StoreSpec

__all__ = ["ReadOnlyCustomStore", "ReadOnlyStore", "Reading", "StoreIterator"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StoreIterator(Iterator[T_co], Protocol[T_co]):
    """Rows of a store, read as they are asked for.

    It reads one committed epoch, whatever is committed meanwhile. Close it, or use it in a ``with``
    block, unless it is read to its end.
    """

    def close(self) -> None:
        """End the reading; closing it twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Reading(Protocol):
    """How the calls of a handle get at a store's committed rows."""

    @property
    def spec(self) -> StoreSpec:
        """Name, kind and serdes of the store."""
        ...

    def once(self, read: Callable[[Any], T]) -> T:
        """Return what a function reads from the store; it may be called again.

        Args:
            read: Given the store, as its kind shows it, with the rows of one committed epoch.
        """
        ...

    def rows(self, read: Callable[[Any], Iterator[T]]) -> StoreIterator[T]:
        """Iterate over what a function returns, all of it from one committed epoch."""
        ...

    def call(self, read: Callable[[Any], Any]) -> Any:
        """Do as `rows` does if the function returns an iterator, and as `once` if not."""
        ...


class ReadOnlyCustomStore:
    """A custom store that can be read from outside of the topology, by its query methods.

    Args:
        reading: How to get at the rows.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.processors import ContextualProcessor
        >>> from mustela.stores import CountMin
        >>> class Clicks(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.state_store("clicks").add(record.key, record.value)
        >>> builder = StreamsBuilder()
        >>> _ = builder.add_state_store(CountMin().builder("clicks", key=str))
        >>> stream = builder.stream("visits", key=str, value=str)
        >>> _ = stream.process(Clicks, stores=["clicks"], name="clicked")
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("visits").pipe_input("ann", "home")
        ...     driver.store("clicks").estimate("ann", "home")
        1
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def name(self) -> str:
        """The store's name."""
        return self._reading.spec.name

    @property
    def kind(self) -> str:
        """The kind of the store."""
        return self._reading.spec.kind

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        self._reading.once(lambda store: getattr(store, name))  # says which methods there are
        call = self._reading.call

        def asked(*given: Any, **named: Any) -> Any:
            return call(lambda store: getattr(store, name)(*given, **named))

        return asked

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._reading.once(dir)})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class ReadOnlyStore(Generic[T]):
    """A store that can be read from outside of the topology; T is what iteration gives.

    Args:
        reading: How to get at the rows.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def name(self) -> str:
        """The store's name."""
        return self._reading.spec.name

    @property
    def kind(self) -> str:
        """The kind of the store, such as ``window``."""
        return self._reading.spec.kind

    def all(self) -> StoreIterator[tuple[T, Any]]:
        """Iterate over everything."""
        return self._reading.rows(lambda store: store.all())

    def keys(self) -> StoreIterator[T]:
        """Iterate over the keys."""
        return self._reading.rows(lambda store: (key for key, _ in store.all()))

    def __iter__(self) -> StoreIterator[T]:
        return self.keys()

    def __len__(self) -> int:
        return self._reading.once(len)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
