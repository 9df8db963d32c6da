"""A program on its way to the workers: pickled once, unpickled once per process."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from mustela.config.handlers import HANDLER_SETTINGS
from mustela.errors import Origin, UsageError
from mustela.plan.epoch import Program
from mustela.plan.plan import Plan
from mustela.plan.user_code import UserModule, install, sum_of
from mustela.spark.differing import compare_versions, installed_versions
from mustela.spark.frames import load_object
from mustela.spark.pickling import dump_by_value
from mustela.topology.node import Node

__all__ = [
    "Handed",
    "Packed",
    "ProgramNotLoadedError",
    "Shipment",
    "Shipped",
    "UnpicklableFunctionError",
    "import_path",
    "not_loaded",
    "ship",
]

_MISSING: Final = re.compile(r"No module named '([\w.]+)'")


class UnpicklableFunctionError(UsageError):
    """A user's function cannot be sent to Spark's workers."""

    code = "FUNCTION_NOT_PICKLABLE"


class ProgramNotLoadedError(UsageError):
    """A Spark worker cannot import what the program needs; ``fields`` may hold ``module``."""

    code = "PROGRAM_NOT_LOADED"


class Shipment(NamedTuple):
    """A packed program.

    Attributes:
        identity: The program's, so that a worker that has it need not unpack it.
        data: The pickled program, functions by value.
        path: Where the driver looks for modules, if the workers are on its host.
        code: The user's modules, if the workers are elsewhere.
        code_sum: Their sum.
        versions: What the driver has installed, if the workers are elsewhere.
    """

    identity: str
    data: bytes
    path: tuple[str, ...] = ()
    code: tuple[UserModule, ...] = ()
    code_sum: str = ""
    versions: tuple[tuple[str, str], ...] = ()

    def unpack(self) -> Program:
        """Return the program.

        Raises:
            ProgramNotLoadedError: If a module is missing here, or raises.
            CodeDamagedError: If the user's modules are not those that were sent.
            ExecutorDiffersError: If other versions are installed here.
        """
        compare_versions(dict(self.versions), installed_versions() if self.versions else {})
        if self.path:
            _look_where(self.path)
        install(self.code, self.code_sum)
        try:
            program: Program = load_object(self.data)
        except Exception as error:
            line = f"{type(error).__name__}: {error}"
            raise not_loaded(line, cluster=not self.path) from error
        return program


class Shipped(Protocol):
    """How a task gets the program: a broadcast of Spark's, or `Handed`."""

    @property
    def value(self) -> Shipment:
        """The packed program."""
        ...


class Handed(NamedTuple):
    """A packed program that a task has with it.

    Attributes:
        value: The packed program.
    """

    value: Shipment


class Packed(NamedTuple):
    """An object for a function that Spark runs in its workers, packed as programs are.

    Attributes:
        data: The object, functions and classes of the main program by value.
        path: Where the driver looks for modules.
    """

    data: bytes
    path: tuple[str, ...]

    @classmethod
    def of(cls, value: object) -> Packed:
        """Pack an object, for workers on this host."""
        return cls(dump_by_value(value), import_path())

    def unpack(self) -> Any:
        """Return the object."""
        _look_where(self.path)
        return load_object(self.data)


def import_path() -> tuple[str, ...]:
    """Return where this process looks for modules, as other processes may say it.

    Example:
        >>> all(Path(entry).is_absolute() for entry in import_path())
        True
    """
    return tuple(str(Path(entry).absolute()) for entry in sys.path)


def _look_where(path: Sequence[str]) -> None:
    """Look for modules where the driver does, in its order, and where this process does."""
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    importlib.invalidate_caches()


def not_loaded(line: str, *, cluster: bool) -> ProgramNotLoadedError:
    """Return the error for a program that a worker cannot load.

    Args:
        line: The last line of what the worker raised.
        cluster: Whether workers run on other hosts.

    Example:
        >>> not_loaded("ModuleNotFoundError: No module named 'prices'", cluster=True).fields
        {'module': 'prices'}
    """
    found = _MISSING.search(line)
    module = found[1] if found else None
    if module is None:
        fix = "import the program's modules in a new Python process to see what they raise"
    elif cluster:
        fix = (
            f"install {module} on every executor's host, or put its source beside the program; "
            "`mustela run --dry-run` lists what executors are given"
        )
    else:
        fix = (
            f"put {module} next to the program or into a directory on sys.path, or install it; "
            "other processes cannot import a module that exists only in this process's memory"
        )
    return ProgramNotLoadedError(
        f"a Spark worker cannot load the program: {line}",
        why="functions run in worker processes, which import the modules that the functions use",
        fix=fix,
        fields={} if module is None else {"module": module},
    )


def ship(
    program: Program,
    path: Sequence[str] = (),
    code: Sequence[UserModule] = (),
    *,
    versions: Mapping[str, str] | None = None,
) -> Shipment:
    """Pack a program.

    Args:
        program: The program.
        path: Where workers look for modules first.
        code: The user's modules, for workers on other hosts.
        versions: What those hosts must have installed.

    Raises:
        UnpicklableFunctionError: As `check_plan`.
    """
    told = tuple((versions or {}).items())
    try:
        data = dump_by_value(program)
        return Shipment(program.identity, data, tuple(path), tuple(code), sum_of(code), told)
    except Exception as error:
        _check_handlers(program)
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


def _check_handlers(program: Program) -> None:
    """Name the handler of the settings that cannot travel, if it is one.

    Raises:
        UnpicklableFunctionError: If it is.
    """
    for name in HANDLER_SETTINGS:
        try:
            dump_by_value(program.kernel.get(name))
        except Exception as error:
            msg = f"setting {name} cannot be sent to Spark's workers: {error}"
            raise UnpicklableFunctionError(
                msg,
                why="a handler runs in worker processes, and holds something that cannot be "
                "pickled",
                fix="create files, locks and clients inside the function, not outside",
                fields={"setting": name},
            ) from error


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
            why="its function runs in worker processes, and holds something that cannot be pickled",
            fix="create files, locks and clients inside the function, not outside",
            fields={"step": node.name},
        ) from error
