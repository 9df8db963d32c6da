"""What the handles of streams and tables share: the step for which they stand."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar

from mustela.api.errors import BadOptionError, OtherBuilderError
from mustela.dsl.missing import VerbStage
from mustela.dsl.registry import Registry
from mustela.errors import Origin
from mustela.serdes.base import Serde

__all__ = ["Handle", "HandleKind", "registry_of"]

K = TypeVar("K")
V = TypeVar("V")

HandleKind = Literal["stream", "table", "global table"]


class Handle(VerbStage, Generic[K, V]):
    """A step of the topology, with the serdes of its output.

    Args:
        registry: The topology while it is being written.
        name: The step's name.
        key: Serde of the keys, if it is known.
        value: Serde of the values, if it is known.
    """

    _kind: ClassVar[HandleKind] = "stream"

    def __init__(
        self, registry: Registry, name: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> None:
        self._registry = registry
        self._name = name
        self._key = key
        self._value = value

    def _stage_name(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        """The name of the step that makes this."""
        return self._name

    @property
    def serdes(self) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """The serdes of keys and values, if they are known."""
        return self._key, self._value

    def _check_builder(self, other: object, *, verb: str, at: Origin) -> None:
        """Check that another stream or table comes from the same builder.

        Args:
            other: What the user passed.
            verb: The method.
            at: The user's line.

        Raises:
            OtherBuilderError: If it comes from another builder.
            BadOptionError: If it is neither a stream nor a table.
        """
        if not isinstance(other, Handle):
            msg = f"cannot {verb} {self._name!r} with {type(other).__name__} {other!r:.60}"
            raise BadOptionError(
                msg,
                at=at,
                why=f"{verb} takes the result of a builder or of another step",
                fix="pass the handle that stream(), table() or a step returned",
                fields={"verb": verb},
            )
        if other._registry is not self._registry:  # pyright: ignore[reportUnknownMemberType]
            name = str(other._name)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            msg = f"cannot {verb} {self._name!r} with {name!r}: their builders differ"
            raise OtherBuilderError(
                msg,
                at=at,
                why="a builder makes one topology, and records do not pass between topologies",
                fix="make both with the same StreamsBuilder",
                fields={"left": self._name, "right": name},
            )


def registry_of(handle: Handle[Any, Any]) -> Registry:
    """Return the topology of a handle, while it is being written."""
    return handle._registry  # pyright: ignore[reportPrivateUsage] - the one place that may
