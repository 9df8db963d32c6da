"""Rule: records that several steps of a stage need by the same key travel there once."""

from __future__ import annotations

from dataclasses import replace

from mustela.planner.flow import Flow
from mustela.planner.options import PlanOptions

__all__ = ["merge_repartitions"]


def merge_repartitions(flow: Flow, _options: PlanOptions) -> Flow:
    """Make steps that read one step's records by one key share an exchange.

    Which steps these are is known when stages are numbered, so this only requests it. Without it
    each of them gets the records by its own exchange.
    """
    return replace(flow, merges_travels=True)
