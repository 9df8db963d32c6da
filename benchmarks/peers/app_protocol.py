"""How a peer's program in Python talks with the harness: its options, events and commands.

Imported by the programs themselves, which run in environments of their own: it needs nothing but
the standard library.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AppArguments:
    """The options that every program takes, and the few that some do."""

    program: str
    bootstrap: str
    app_id: str
    input: str
    output: str
    guarantee: str
    commit_ms: int
    state_dir: str
    records: int
    jars: str
    process: int
    processes: int


def parse_arguments() -> AppArguments:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    for name in ("program", "bootstrap", "app-id", "input", "output", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--commit-ms", type=int, required=True)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--jars", default="")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    return AppArguments(**vars(parser.parse_args()))


def emit(event: str, **fields: object) -> None:
    """Say that something happened now."""
    print(json.dumps({"event": event, "time": time.time(), **fields}), flush=True)


def obey(
    begin: Callable[[], None],
    end: Callable[[], None],
    more: Mapping[str, Callable[[str], None]] | None = None,
) -> None:
    """Begin, then follow the commands of standard input until `stop` or its end; then end.

    Args:
        begin: Starts the program.
        end: Ends it.
        more: Further commands by their first word, which are given the rest of the line.
    """
    begin()
    for line in sys.stdin:
        command = line.strip()
        if command == "stop":
            break
        if command == "restart":
            emit("restart")
            end()
            begin()
        name, _, rest = command.partition(" ")
        if more is not None and name in more:
            more[name](rest)
    end()
