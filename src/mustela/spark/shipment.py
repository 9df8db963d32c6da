"""A program on its way to the workers: pickled once, unpickled once per process."""

from __future__ import annotations

from typing import NamedTuple

from mustela.errors import Origin, UsageError
from mustela.plan.epoch import Program
from mustela.plan.plan import Plan
from mustela.spark.frames import load_object
from mustela.spark.pickling import dump_by_value
from mustela.topology.node import Node

__all__ = ["Shipment", "UnpicklableFunctionError", "ship"]


class UnpicklableFunctionError(UsageError):
    """A function of the user's cannot be sent to Spark's workers."""

    code = "FUNCTION_NOT_PICKLABLE"


class Shipment(NamedTuple):
    """A packed program.

    Attributes:
        identity: The program's, so that a worker that has it need not unpack it.
        data: The pickled program, functions by value.
    """

    identity: str
    data: bytes

    def unpack(self) -> Program:
        """Return the program."""
        program: Program = load_object(self.data)
        return program


def ship(program: Program) -> Shipment:
    """Pack a program.

    Raises:
        UnpicklableFunctionError: As `check_plan`.
    """
    try:
        return Shipment(program.identity, dump_by_value(program))
    except Exception as error:
        raise _cannot_travel(program.plan, error) from error


def check_plan(plan: Plan) -> None:
    """See whether a plan can be sent.

    Raises:
        UnpicklableFunctionError: If a function of the user's holds something that cannot travel,
            such as an open file, a lock or a client.
    """
    try:
        dump_by_value(plan)
    except Exception as error:
        raise _cannot_travel(plan, error) from error


def _cannot_travel(plan: Plan, error: Exception) -> UnpicklableFunctionError:
    for node in _nodes(plan):
        _check(node)
    return UnpicklableFunctionError(f"the program cannot be sent to Spark's workers: {error}")


def _nodes(plan: Plan) -> list[Node]:
    return [*plan.stages[0].sources, *(step.node for stage in plan.stages for step in stage.steps)]


def _check(node: Node) -> None:
    try:
        dump_by_value(node)
    except Exception as error:
        origin: Origin | None = node.origin
        msg = f"step {node.name} cannot be sent to Spark's workers: {error}"
        raise UnpicklableFunctionError(
            msg,
            at=origin,
            why="its function runs in worker processes, and holds something that cannot travel",
            fix="make files, locks and clients inside the function, not outside",
            fields={"step": node.name},
        ) from error
