"""One step of the physical plan: a logical node and the part of it that runs here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mustela.topology.node import Node

__all__ = ["Role", "Step"]

Role = Literal["whole", "combine", "merge"]
"""``whole``: all of the node. ``combine``: partial results before the shuffle. ``merge``: partial
results become the result after the shuffle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a stage; the kernel has one operator for each (node type, role).

    Attributes:
        name: The node's name; unique in its stage together with the role.
        inputs: Names of steps of the same stage, or of the stage's inputs, in order.
        node: What the step means.
        role: Which part of the node runs here.
        wants_old: For a step that gives a table: its changes must carry the old value
            (`Batch.olds`). For a table filter it also says that the changes it reads carry it, so
            that the filter can tell a row that leaves the result from one that was never in it, for
            which it passes on no deletion.
        each_change: For a step that gives a table: it forwards every change, even with ``emit =
            barrier``, because a later step looks rows up as of a moment.
        lag_ms: How far behind the watermark the rows that reach this step may be, because earlier
            steps hold rows back until a window closes.
        turns: If one record may arrive by several inputs: a number for each input, the smallest
            comes first. Otherwise empty. For a sink whose topic another sink writes, too: the turn
            of the step that made its rows, and its own.
        numbers: For a flat mapping: it numbers what it makes of each record, so that sinks of one
            topic can keep its order.
        spread: For a sink: its topic is written in another stage, too.
    """

    name: str
    inputs: tuple[str, ...]
    node: Node
    role: Role = "whole"
    wants_old: bool = False
    each_change: bool = False
    lag_ms: int = 0
    turns: tuple[int, ...] = ()
    numbers: bool = False
    spread: bool = False
