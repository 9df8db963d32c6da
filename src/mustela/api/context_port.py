"""What a processor's context is built on: the facts of its step, and the port to an engine.

Each engine, and a mock for tests, implements `ContextPort`: all that differs between them. What
users can ask, how it is checked and what errors say is written once, in `mustela.api.context`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mustela.api.errors import ProcessorError, StoreAccessError, UnknownChildError
from mustela.api.timers import (
    Cancellable,
    PunctuationType,
    Punctuator,
    TimeDomain,
    TimerError,
    TimerKeyError,
)
from mustela.api.transact import Request
from mustela.api.update import Operation
from mustela.errors import Origin, show_key
from mustela.model import FixedKeyRecord, Headers, Record
from mustela.serdes.base import Serde

__all__ = ["ContextPort", "OverPort", "RecordMetadata", "StepFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Where the current record was read.

    Attributes:
        topic: The source topic.
        partition: Its partition.
        offset: The record's offset.
    """

    topic: str
    partition: int
    offset: int


class ContextPort(Protocol):
    """What an engine does for the context of one processor instance."""

    def time(self, domain: TimeDomain, /) -> int:
        """Return the time for the current record or timer, in milliseconds; -1 if none yet."""
        ...

    def headers(self) -> Headers:
        """Return the headers of the current record; none if there is no record."""
        ...

    def metadata(self) -> RecordMetadata | None:
        """Return where the current record was read; None if it was not read from a topic."""
        ...

    def store(self, name: str, /) -> Any:
        """Return a store of the step or a global store; None if it has no such store."""
        ...

    def any_key_store(self, name: str, /) -> Any:
        """Return a store in which any key can be read; None if there is no such store."""
        ...

    def send(
        self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], target: str | None, /
    ) -> bool:
        """Send a record to a child or an output, or to all children.

        Returns:
            Whether there is a current record or timer, whose place the record takes; if not,
            nothing is sent.
        """
        ...

    def ask(self, asked: Operation | Request, key: Any, store: str | None, /) -> bool:
        """Send a request to other lanes, as it is now.

        Args:
            asked: A change to a key of ``store``, or a transaction.
            key: The key to change; or the key of what a transaction returns, None for that of the
                current record.
            store: The store that is changed.

        Returns:
            Whether there is a current record or timer, whose place it takes; if not, nothing is
            sent.
        """
        ...

    def schedule(
        self,
        kind: PunctuationType,
        interval_ms: int,
        punctuator: Punctuator,
        start_ms: int | None,
        /,
    ) -> Cancellable:
        """Schedule a punctuator.

        Raises:
            TimerError: If ``init`` is over.
        """
        ...

    def set_timer(
        self, domain: TimeDomain, key: Any, name: str, at_ms: int | None, /
    ) -> int | None:
        """Set a timer, or cancel it.

        Args:
            domain: By which time it fires.
            key: The key that it belongs to; None for the current key.
            name: The timer's name, "" for none.
            at_ms: When it fires; None to cancel it.

        Returns:
            The key group of the key; if it is not the current one, nothing is done. None if there
            is no key.
        """
        ...

    def count(self, name: str, number: int, /) -> None:
        """Count something of the user's."""
        ...

    def commit(self) -> None:
        """Note that a commit was asked for."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What is known about a processor's step before it runs, and its errors.

    Where names are None, any name will do.

    Attributes:
        name: The step's name.
        application_id: The application's id.
        app_configs: The application's settings.
        key: Serde of incoming keys.
        value: Serde of incoming values.
        processor: The name of the processor's class.
        acts_on_time: Whether it keeps timers and schedules.
        stores: Names of its stores.
        children: Names of the steps that read it.
        outputs: Names of its side outputs.
        reads: Names of the stores in which it reads any key.
        updates: Names of the stores in which it changes any key.
        replies: Names of the outputs for replies.
        transacts: Whether it asks for transactions.
        at: The user's line.
    """

    name: str
    application_id: str
    app_configs: Mapping[str, Any]
    key: Serde[Any]
    value: Serde[Any]
    processor: str
    acts_on_time: bool
    stores: Collection[str]
    children: Collection[str] | None
    outputs: Collection[str] | None
    reads: Collection[str] | None = ()
    updates: Collection[str] | None = ()
    replies: Collection[str] | None = ()
    transacts: bool = False
    at: Origin | None = None

    def no_store(self, name: str) -> StoreAccessError:
        """Return the error for a store that the step does not have."""
        return StoreAccessError(
            f"step {self.name!r} has no store {name!r}",
            evidence={"its stores": _listed(self.stores)},
            at=self.at,
            why="a step's stores decide the lane of its records, so they must be declared",
            fix=f'connect it: process(..., stores=["{name}"]), or name it in stores() of the class',
            fields={"step": self.name, "store": name},
        )

    def not_read(self, name: str) -> StoreAccessError:
        """Return the error for a store of other lanes that the step does not read."""
        return StoreAccessError(
            f"step {self.name!r} did not declare that it reads any key of {name!r}",
            evidence={"it reads": _listed(self.reads)},
            at=self.at,
            why="what a step reads from other lanes must be known before the epoch begins",
            fix=f'declare it: process(..., reads=["{name}"])',
            fields={"step": self.name, "store": name},
        )

    def not_updated(self, name: str) -> StoreAccessError:
        """Return the error for a store of other lanes that the step does not change."""
        return StoreAccessError(
            f"step {self.name!r} did not declare that it updates {name!r}",
            evidence={"it updates": _listed(self.updates)},
            at=self.at,
            why="changes are sent to the lane of their key, by a route declared in advance",
            fix=f'declare it: process(..., updates=["{name}"])',
            fields={"step": self.name, "store": name},
        )

    def no_transactions(self) -> StoreAccessError:
        """Return the error for a step without stores for transactions."""
        return StoreAccessError(
            f"step {self.name!r} has no stores for transactions",
            at=self.at,
            why="transactions are sent to the lanes of their keys, by a route declared in advance",
            fix="declare them: process(..., transacts=[store])",
            fields={"step": self.name},
        )

    def no_reply(self, name: str) -> UnknownChildError:
        """Return the error for a reply that the step does not have."""
        return UnknownChildError(
            f"step {self.name!r} has no reply {name!r}",
            evidence={"replies": _listed(self.replies)},
            at=self.at,
            why="replies are declared where the processor is added",
            fix=f'declare it: process(..., replies=["{name}"])',
            fields={"step": self.name, "child": name},
        )

    def no_child(self, name: str, what: str) -> UnknownChildError:
        """Return the error for a child, or a side output, that the step does not have."""
        return UnknownChildError(
            f"step {self.name!r} has no {what} {name!r}",
            evidence={"children": _listed(self.children), "outputs": _listed(self.outputs)},
            at=self.at,
            why="a record is forwarded to a step that reads this one, or to a declared output",
            fix=f'name the step name="{name}", or declare outputs={{"{name}": ...}}',
            fields={"step": self.name, "child": name},
        )

    def cannot_forward(self) -> ProcessorError:
        """Return the error for a record that is forwarded while there is no current record."""
        return ProcessorError(
            f"step {self.name!r} cannot forward while its processor is opened or closed",
            at=self.at,
            why="a forwarded record takes the place of the current record or timer: there is none",
            fix="forward from process, from a timer or from a punctuator",
            fields={"step": self.name},
        )

    def cannot_ask(self, *, method: str, why: str, store: str | None = None) -> StoreAccessError:
        """Return the error for a request to other lanes while there is no current record."""
        return StoreAccessError(
            f"{method} is called outside of process() and timers: there is no current record",
            at=self.at,
            why=why,
            fix="call it in process()",
            fields={"step": self.name} if store is None else {"step": self.name, "store": store},
        )

    def no_timers(self, *, method: str, missing: str) -> TimerError:
        """Return the error for a step that keeps no timers."""
        return TimerError(
            f"{method} was called, but step {self.name!r} keeps no timers",
            at=self.at,
            why=f"class {self.processor} does not declare that it acts on time, so it has no store"
            " for timers",
            fix=f"add to class {self.processor}: {missing}",
        )

    def no_key(self, method: str) -> TimerKeyError:
        """Return the error for a timer without a key."""
        return TimerKeyError(
            f"{method} was called without a key, and there is no current record",
            at=self.at,
            why="a timer belongs to a key",
            fix=f"pass one: {method}(…, key=…)",
        )

    def key_elsewhere(self, method: str, key: object, group: int, here: int) -> TimerKeyError:
        """Return the error for a timer whose key belongs to another key group."""
        return TimerKeyError(
            f"{method} was called for key {show_key(key)}, whose state is in another key group",
            evidence={"its key group": group, "this key group": here},
            at=self.at,
            why="a timer fires in the task that has the state of its key, which is another one",
            fix="forward a record with that key to a step that registers the timer",
        )


def _listed(names: Collection[str] | None) -> str:
    return "any" if names is None else ", ".join(names) or "none"


class OverPort:
    """What all parts of a context share: the port, the step and the key group.

    Args:
        port: The port of the engine.
        step: What is known about the step.
        group: The key group; -1 for a processor without stores.
    """

    def __init__(self, port: ContextPort, step: StepFacts, group: int) -> None:
        self._port = port
        self._step = step
        self._group = group
