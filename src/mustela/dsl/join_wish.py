"""What a user said of a join of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mustela.api.join_windows import JoinWindows, StreamJoined
from mustela.api.joined import Joined
from mustela.serdes.base import Serde
from mustela.topology.stream_join import StreamJoinKind

__all__ = ["Wish"]

_VERBS: dict[StreamJoinKind, str] = {"inner": "join", "left": "left_join", "outer": "outer_join"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a user said of a join, whatever it is with."""

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

    def of_global_table(self) -> Wish:
        """Take Kafka Streams' order: the table, how its key is found, the joiner."""
        if self.key_option is None and callable(self.windows):
            first = self.joiner
            return replace(self, foreign_key_with_key=first, joiner=self.windows, windows=None)
        return self

    @property
    def key_option(self) -> str | None:
        """The option that says how a row's key is found, if one was given."""
        options = ("foreign_key", "foreign_key_with_key")
        return next((one for one in options if getattr(self, one) is not None), None)

    @property
    def verb(self) -> str:
        """The method."""
        return _VERBS[self.kind] + ("_with_key" if self.with_key else "")
