"""A program in a process of its own, as a user starts it: ``mustela run``, and SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.integration.app_world import World
from tests.patience import PATIENCE_S


def lines_until(stream: Iterable[str], text: str) -> list[str]:
    """Return the lines that come, up to the first one with a text, or all if none has it."""
    seen: list[str] = []
    for line in stream:
        seen.append(line)
        if text in line:
            break
    return seen


def run_quietly(program: str, **variables: str) -> str:
    """Run Python code that prints no error; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_program(
    world: World, directory: Path, program: str, records: Sequence[tuple[str, str]], *options: str
) -> tuple[str, str]:
    """Run a program over records until its first epoch is committed, then stop it.

    Args:
        world: Where its topics ``in`` and ``out`` are.
        directory: Where the program is written.
        program: Its text, with places for name, servers, state, source and sink.
        records: Key and value of each.
        options: Of ``mustela run``; with ``log.level=debug``, which tells of commits.

    Returns:
        All that it printed to standard output, and to standard error.
    """
    source, sink = world.topic("in"), world.topic("out")
    servers, state = world.broker.bootstrap_servers, directory / "state"
    (directory / "selling.py").write_text(
        program.format(name=world.name, servers=servers, state=state, source=source, sink=sink)
    )
    world.send(source, records)
    command = [sys.executable, "-m", "mustela.cli.main", "run", "selling:app", *options]
    with subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    ) as app:
        assert app.stderr is not None
        seen = lines_until(app.stderr, "1 is committed")
        app.send_signal(signal.SIGTERM)
        out, err = app.communicate(timeout=PATIENCE_S)
        assert app.returncode == 0, "".join([*seen, err])
    return out, "".join(seen) + err
