"""What becomes of each row that the broker refuses: the application's handler, or its sink's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mustela.api.handlers import ErrorContext, Handler, Handling
from mustela.connectors.kafka.columns import RowColumns
from mustela.connectors.kafka.errors import RefusedRow
from mustela.connectors.kafka.production import ProductionError
from mustela.model import Record
from mustela.plan.handling import Asked
from mustela.topology.node import Node
from mustela.topology.sink import SinkNode

__all__ = ["RowHandler"]


@dataclass(frozen=True, slots=True)
class RowHandler:
    """The production handlers of an application.

    Attributes:
        handler: That of the settings.
        sinks: By topic, the step that writes it and its own handler, where it has one.
        application_id: What a handler is told of the application.

    Example:
        >>> RowHandler("continue").fails
        False
    """

    handler: Handler
    sinks: Mapping[str, tuple[str, Handler]] = field(default_factory=dict[str, tuple[str, Handler]])
    application_id: str = ""

    @classmethod
    def of(cls, handler: Handler, nodes: Iterable[Node], application_id: str) -> RowHandler:
        """Return the handlers of a topology's sinks."""
        sinks: dict[str, tuple[str, Handler]] = {
            node.topic: (node.name, node.on_error)
            for node in nodes
            if isinstance(node, SinkNode)
            and isinstance(node.topic, str)
            and node.on_error is not None
        }
        return cls(handler, sinks, application_id)

    @property
    def fails(self) -> bool:
        """Whether no row that is refused is ever left out."""
        return self.handler == "fail" and all(own == "fail" for _, own in self.sinks.values())

    def judge(self, row: RefusedRow, columns: RowColumns) -> str:
        """Return what becomes of a row: ``fail``, ``continue`` or ``dead_letter``.

        Raises:
            ErrorHandlerFailedError: If a handler that is a function raises.
            ErrorHandlerAnswerError: If its answer means nothing here.
        """
        step, handler = self.sinks.get(row.topic, ("", self.handler))
        if not isinstance(handler, Handling):
            return handler
        asked = Asked(handler, step or row.topic, None)
        headers = tuple(columns.headers[row.row]) if columns.headers else ()
        times: Sequence[int] | None = columns.timestamps
        timestamp = max(times[row.row], 0) if times else 0
        key, value = columns.keys[row.row], columns.values[row.row]
        context = ErrorContext(
            kind="production",
            step=step,
            application_id=self.application_id,
            topic=row.topic,
            timestamp=timestamp,
            headers=headers,
        )
        error = ProductionError(f"{row.reason}: {row.text}", fields={"topic": row.topic})
        record = Record(key, value, timestamp, headers)
        answer = asked.answer(error, record, context, repeats=False, pause=None)
        if answer == "instead":
            raise asked.refused(asked.records, "a row that the broker refused has no other")
        return answer
