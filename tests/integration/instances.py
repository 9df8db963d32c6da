"""Instances of an application as processes of their own, each with all that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

__all__ = ["Instance"]


class Instance:
    """A process of the application, with all that it starts.

    Args:
        program: Its source.
        words: Its arguments.
        output: Where it prints to.
    """

    def __init__(self, program: str, *words: str, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, *words],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=output.parent,
                start_new_session=True,
            )

    @property
    def lines(self) -> list[str]:
        """What it has told of itself."""
        text = self._output.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line.startswith(("state ", "restored "))]

    @property
    def told(self) -> list[str]:
        """What it has said to listeners."""
        text = self._output.read_text(encoding="utf-8", errors="replace")
        return [line[5:] for line in text.splitlines() if line.startswith("said ")]

    def signal(self, number: int) -> None:
        """Send a signal to every process of it."""
        found = [self.process.pid]
        for other in psutil.process_iter():
            try:
                if os.getsid(other.pid) == self.process.pid:
                    found.append(other.pid)
            except (ProcessLookupError, PermissionError):
                continue
        for pid in {*found}:
            if psutil.pid_exists(pid):
                os.kill(pid, number)
