"""What the planner may know of an application's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PlanOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Settings that change a plan.

    Attributes:
        emit: ``barrier``: one change per key and epoch; ``every``: each update goes on.
        rules_off: Names of rules that shall not be used.

    Example:
        >>> PlanOptions(rules_off=frozenset({"combine_before_shuffle"})).emit
        'barrier'
    """

    emit: Literal["barrier", "every"] = "barrier"
    rules_off: frozenset[str] = frozenset()
