"""What a step and the maker of its calls say to each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import msgspec

from mustela.model import Headers, Record
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.async_calls import AsyncNode

__all__ = [
    "CallDesk",
    "CallOutcome",
    "CallRequest",
    "CallTape",
    "CallersSeen",
    "Fate",
    "Result",
    "StepCalls",
    "read_outcome",
    "read_results",
    "write_outcome",
    "write_results",
]

Fate = Literal["running", "lost"]
"""What became of a call that another task began: still being made, or abandoned."""


class CallRequest(NamedTuple):
    """A call to be made.

    Attributes:
        call_id: Identifies record and step; the idempotency key.
        group: The record's key group.
        key: The record's key as bytes.
        value: Its value as bytes.
        timestamp: Milliseconds.
        headers: Its headers.
    """

    call_id: str
    group: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    headers: Headers = ()


class CallOutcome(msgspec.Struct, frozen=True, array_like=True):
    """How a call ended: with a result, or with an error.

    Attributes:
        call_id: The call.
        attempts: How often it was made.
        result: What `write_results` made of the function's result.
        error: Class name of the last error.
        text: What the error said.
        where: The user's line that raised it, as ``file:line``.
    """

    call_id: str
    attempts: int = 1
    result: bytes | None = None
    error: str | None = None
    text: str = ""
    where: str = ""


class Result(NamedTuple):
    """A record that a call returned.

    Attributes:
        key: Its key; without meaning if keys do not change.
        value: Its value.
        timestamp: Its timestamp; None for that of the record it comes from.
        headers: Its headers; None for those of the record it comes from.
    """

    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers | None = None


class CallersSeen(NamedTuple):
    """The processes of a host that make calls, as a task there sees them.

    Attributes:
        host: The host, or what of it they share: its name is in those of its owners.
        owners: The processes that live.
        waits: Whether the task has left calls to later ones, or has met some that are being made.
    """

    host: str
    owners: tuple[str, ...]
    waits: bool


class CallTape(msgspec.Struct, array_like=True):
    """What one task of one step learned from its calls: with this, it can run again without them.

    Attributes:
        owner: The process that made them.
        refused: The calls for which there was no room.
        completed: The outcomes that came while the task waited.
        parked: Those that came when it stopped waiting.
        left: The calls that it left to later tasks.
        arrived: Those of calls that earlier tasks had parked.
        lost: The calls of earlier tasks whose process was gone.
        polls: Ages of calls, -1 for no room, and how long to wait before looking again.
    """

    owner: str = ""
    refused: list[str] = []
    completed: list[CallOutcome] = []
    parked: list[CallOutcome] = []
    left: list[str] = []
    arrived: list[CallOutcome] = []
    lost: list[str] = []
    polls: dict[int, int] = {}


class StepCalls(Protocol):
    """The calls of one step in one process."""

    @property
    def owner(self) -> str:
        """The process, unique among all that ever ran on the host."""
        ...

    def begin(self, wait_ms: int) -> None:
        """Note that a task begins, and how long it may wait for results in total."""
        ...

    def start(self, request: CallRequest) -> bool:
        """Accept a call; False if there are enough already.

        A call that is already being made is not made twice.
        """
        ...

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        """Return the calls that have ended.

        Args:
            wait: Whether to wait for one if none has ended and there is time left; if time runs
                out, the answer is empty.
        """
        ...

    def park(self, call_id: str) -> CallOutcome | None:
        """Leave a call to later tasks, in any process; or return its outcome if it has ended."""
        ...

    def fate(self, call_id: str, owner: str) -> Fate:
        """Say whether the process ``owner`` is still making a call; ask this before `arrived`."""
        ...

    def arrived(self, call_ids: Collection[str]) -> list[CallOutcome]:
        """Return the outcomes of those among parked calls that have ended."""
        ...

    def sweep(self, groups: Collection[int], wanted: Collection[str]) -> None:
        """Forget the outcomes of parked calls of key groups, except those that are wanted."""
        ...

    def poll_ms(self, age_ms: int | None) -> int:
        """Return how long to wait before looking again.

        Args:
            age_ms: The age of the youngest call that is being made; None if there was no room for
                some calls.
        """
        ...


class CallDesk(Protocol):
    """Makes the calls of all steps of an application in one process."""

    def step(self, node: AsyncNode) -> StepCalls:
        """Return the calls of one step, the same object every time."""
        ...


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(CallOutcome).decode
_VALUES: Final = ValueSerde()


def write_outcome(outcome: CallOutcome) -> bytes:
    """Return an outcome as bytes."""
    return _ENCODE(outcome)


def read_outcome(data: bytes) -> CallOutcome:
    """Return the outcome from which `write_outcome` made the bytes."""
    return _DECODE(data)


def write_results(node: AsyncNode, given: Any) -> bytes | None:
    """Return what a function returned for a record, as bytes.

    It is always done, so that a result that cannot be parked fails the first time, and not on the
    day when a call takes longer.

    Raises:
        TypeError: If the function returned something that is not a record.
        SerdeError: If it cannot be encoded.
    """
    if node.gives == "value":
        serde: Serde[Any] = node.result or _VALUES
        return serde.serialize(given)
    rows = [_result(one) for one in _several(given)]
    return _VALUES.serialize([tuple(row) for row in rows])


def read_results(node: AsyncNode, data: bytes | None) -> list[Result]:
    """Return as records what was given to `write_results`."""
    if node.gives == "value":
        serde: Serde[Any] = node.result or _VALUES
        return [Result(None, serde.deserialize(data))]
    return [Result(*row) for row in _VALUES.deserialize(data)]


def _several(given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, Record):
        return (given,)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        msg = f"the function returned a {type(given).__name__}, not records"
        raise TypeError(msg)
    return given  # pyright: ignore[reportUnknownVariableType]


def _result(one: Any) -> Result:
    if isinstance(one, Record):
        record = cast("Record[Any, Any]", one)
        return Result(record.key, record.value, record.timestamp, record.headers)
    if isinstance(one, tuple) and len(one) == 2:  # pyright: ignore[reportUnknownArgumentType]
        return Result(one[0], one[1])
    msg = f"the function must return Records or pairs (key, value), not a {type(one).__name__}"  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(msg)
