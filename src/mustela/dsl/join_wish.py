"""What the user asks of a join of a stream, and the join that is about to be made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mustela.api.functions import check_function
from mustela.api.handlers import OnError, read_on_error
from mustela.api.join_windows import JoinWindows, StreamJoined
from mustela.api.joined import Joined
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.join_keys import join_key
from mustela.dsl.registry import NodePlace
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.stream_join import StreamJoinKind

__all__ = ["Join", "Wish", "begin_join"]

_VERBS: dict[StreamJoinKind, str] = {"inner": "join", "left": "left_join", "outer": "outer_join"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The user's arguments of a join, whatever the other side is."""

    kind: StreamJoinKind
    with_key: bool
    joiner: Callable[..., Any]
    windows: JoinWindows | None = None
    foreign_key: Callable[[Any], Any] | None = None
    foreign_key_with_key: Callable[[Any, Any], Any] | None = None
    value: type[Any] | Serde[Any] | None = None
    name: str | None = None
    store: str | None = None
    stream_joined: StreamJoined[Any, Any, Any] | None = None
    joined: Joined[Any, Any, Any] | None = None
    on_error: OnError | None = None

    def of_global_table(self) -> Wish:
        """Accept Kafka Streams' order: the table, the key function, the joiner."""
        given = self.foreign_key or self.foreign_key_with_key
        if given is None and callable(self.windows):
            first = self.joiner
            return replace(self, foreign_key_with_key=first, joiner=self.windows, windows=None)
        return self

    @property
    def verb(self) -> str:
        """The method."""
        return _VERBS[self.kind] + ("_with_key" if self.with_key else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A join whose step is about to be added.

    Attributes:
        left: The stream.
        other: What it is joined with.
        options: The options given as one object.
        place: The place of the step.
    """

    left: Handle[Any, Any]
    other: Handle[Any, Any]
    options: StreamJoined[Any, Any, Any] | Joined[Any, Any, Any]
    place: NodePlace

    def key(self) -> Serde[Any]:
        """Return the serde with which both sides encode their keys.

        Raises:
            JoinKeysError: If there is none.
        """
        said = self._said("key", self.options.key)
        return join_key(self.left, self.other, said, at=self.place["origin"])

    def values(self) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Return the serdes of the values of both sides, if they are known."""
        left = self._said("value", self.options.value) or self.left.serdes[1]
        other = self._said("value", self.options.other_value) or self.other.serdes[1]
        return left, other

    def _said(self, part: str, said: object) -> Serde[Any] | None:
        holder = type(self.options).__name__
        return choose_serde(part, None, said, holder=holder, at=self.place["origin"])


def begin_join(
    left: Handle[Any, Any],
    other: Handle[Any, Any],
    wish: Wish,
    options: StreamJoined[Any, Any, Any] | Joined[Any, Any, Any],
    arguments: tuple[str, ...],
    at: Origin,
) -> Join:
    """Check the joiner of a join, and choose the place of its step.

    Args:
        left: The stream.
        other: What it is joined with.
        wish: The user's arguments.
        options: Those of them that were given as one object.
        arguments: The joiner's arguments besides the key.
        at: The user's line.

    Raises:
        FunctionError: If the joiner cannot be called with its arguments.
        OptionConflictError: If two names are given.
        DuplicateNameError: If the name is taken.
    """
    arguments = ("key", *arguments) if wish.with_key else arguments
    check_function(wish.joiner, arguments, role="joiner", verb=wish.verb, at=at)
    place = registry_of(left).place(
        wish.verb,
        parents=(left.name, other.name),
        at=at,
        name=choose("name", wish.name, options.name, holder=type(options).__name__, at=at),
        apart=other.name,
    )
    place["on_error"] = read_on_error(wish.on_error, verb=wish.verb, at=at)
    return Join(left=left, other=other, options=options, place=place)
