"""What processors count: the user's own metrics, next to those of the steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mustela.api.errors import BadNameError

__all__ = ["MetricCounter", "ProcessorMetrics"]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class MetricCounter:
    """A count that only goes up.

    Args:
        name: Its name.
        add: Called with the name and the increment.

    Example:
        >>> MetricCounter("hits", lambda name, number: print(name, number)).increment(2)
        hits 2
    """

    __slots__ = ("_add", "name")

    def __init__(self, name: str, add: Callable[[str, int], None]) -> None:
        self.name = name
        self._add = add

    def increment(self, number: int = 1) -> None:
        """Count one more, or several.

        Args:
            number: How many; at least 0.

        Raises:
            ValueError: If the number is below 0.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Sized(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.metrics().counter("letters").increment(len(record.value))
        """
        if number < 0:
            msg = f"counter {self.name!r} only goes up, so it cannot be incremented by {number}"
            raise ValueError(msg)
        self._add(self.name, number)


class ProcessorMetrics:
    """The metrics of a processor's step.

    They belong to the epoch: if an epoch fails and is run again, what it counted counts once. They
    are listed with the step's own counts, as ``user.<name>:<step>``: in the counters of
    `mustela.events.EpochDone`, and in `TopologyTestDriver.metrics`.

    Args:
        add: Called with the name of a count and its increment.
    """

    __slots__ = ("_add", "_counters")

    def __init__(self, add: Callable[[str, int], None]) -> None:
        self._add = add
        self._counters: dict[str, MetricCounter] = {}

    def counter(self, name: str) -> MetricCounter:
        """Return a counter; the same one for the same name.

        Args:
            name: Letters, digits, dots, underscores and hyphens.

        Raises:
            BadNameError: If the name is not of that form.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Filter(ContextualProcessor):
            ...     def process(self, record):
            ...         if record.value:
            ...             self.context.forward(record)
            ...         else:
            ...             self.context.metrics().counter("empty").increment()
            >>> builder = StreamsBuilder()
            >>> lines = builder.stream("lines", key=str, value=str)
            >>> lines.process(Filter, name="filter").to("full", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("lines").pipe_value_list(["", "a", ""])
            ...     driver.metrics["user.empty:filter"]
            2
        """
        found = self._counters.get(name)
        if found is None:
            if _NAME.fullmatch(name) is None:
                msg = f"{name!r} cannot be the name of a counter"
                raise BadNameError(
                    msg,
                    fix="use 1 to 100 letters, digits, dots, underscores and hyphens",
                    fields={"name": name, "what": "counter"},
                )
            found = self._counters[name] = MetricCounter(name, self._add)
        return found
