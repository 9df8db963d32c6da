"""The settings of an application that the planner knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PlanOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Settings that change a plan.

    Attributes:
        emit: ``barrier``: one change per key and epoch; ``every``: each update is passed on.
        event_time: What time means; records of a window are combined only by the watermark, which
            does not depend on the order in which a lane gets them.
        rules_off: Names of rules that are not applied.

    Example:
        >>> PlanOptions(rules_off=frozenset({"combine_before_shuffle"})).emit
        'barrier'
    """

    emit: Literal["barrier", "every"] = "barrier"
    event_time: Literal["watermark", "stream-time"] = "stream-time"
    rules_off: frozenset[str] = frozenset()
