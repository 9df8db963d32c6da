"""The types of a processor's side outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from mustela.serdes.base import Serde

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["SideOutput"]


@dataclass(frozen=True, kw_only=True)
class SideOutput(Generic[K, V]):
    """The types of a side output of a processor.

    Attributes:
        key: Type or serde of the keys; the processed stream's if not given.
        value: Type or serde of the values; likewise.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.processors import ContextualProcessor
        >>> class Sort(ContextualProcessor):
        ...     def process(self, record):
        ...         self.context.output("empty", record.with_value(0))
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> sorted_words = words.process(Sort, outputs={"empty": SideOutput(value=int)})
        >>> sorted_words.output("empty").to("empty")
    """

    key: type[K] | Serde[K] | None = None
    value: type[V] | Serde[V] | None = None
