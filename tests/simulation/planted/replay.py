"""Plays what is known to find planted bugs again, each in a process of its own.

``python -m tests.simulation.planted.replay [--alone]`` prints a line of JSON for each bug.
Processes
are forks of one that has loaded all that is not the project's: a start takes most of the time.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

from tests.differential.planted.plant import plant
from tests.simulation.planted.known import LIST, Finding, findings, planted, script_of

__all__ = ["main", "played"]

TRIES = 40
"""So many seeds, at most, draw what a script leaves open: a change of the project's code shifts the
calls at which events happen."""
_LOADED_BEFORE = ("confluent_kafka.admin", "lmdb", "pydantic_settings", "pyspark.cloudpickle")


def played(found: Finding) -> dict[str, Any]:
    """Play a known script in this process; return what it violates with and without its guard."""
    from tests.simulation.invariants import NOT_HELD
    from tests.simulation.play import play

    bug = planted()[found.bug]
    told: dict[str, Any] = {"bug": found.bug, "found_by": None, "missed_without": False}
    for tries in range(TRIES):
        script = script_of(found, found.seed + tries)
        violations = play(script).violations
        if not violations or violations[0].invariant != bug.guard:
            continue
        told["found_by"] = bug.guard
        if not bug.alone:
            break
        told["missed_without"] = not play(script, off=NOT_HELD | {bug.guard}).violations
        if told["missed_without"]:
            break
    return told


def _forked(found: Finding) -> None:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        plant(found.bug, LIST)
        print(json.dumps(played(found)), flush=True)
    except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(arguments: list[str]) -> None:
    """Play what finds all bugs, or only those that one invariant finds alone."""
    bugs, known = planted(), findings()
    for module in _LOADED_BEFORE:
        importlib.import_module(module)
    for name, bug in sorted(bugs.items()):
        if name in known and (bug.alone or "--alone" not in arguments):
            _forked(known[name])


if __name__ == "__main__":
    main(sys.argv[1:])
