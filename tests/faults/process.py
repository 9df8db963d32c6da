"""A child application: started, waited for, and killed with everything that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.patience import PATIENCE_S, looks

ROOT = Path(__file__).parent.parent.parent


class ChildEndedError(AssertionError):
    """The application ended, or did not do what it was waited for."""


class ChildApp:
    """One run of an application in a session of its own.

    Args:
        kind: Which application of `tests.faults.kinds`.
        directory: Where its events, its output and its fault markers go.
        environment: Variables besides those of this process.
        point: Where it shall stop to be killed, as ``name:n``.
        wrapper: A command that execs what follows it.
        module: What runs the application.
    """

    def __init__(
        self,
        kind: str,
        directory: Path,
        environment: Mapping[str, str],
        *,
        point: str = "",
        wrapper: Sequence[str] = (),
        module: str = "tests.faults.apps",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.events_file = directory / "events.jsonl"
        self.output_file = directory / "output.txt"
        self.point = point.partition(":")[0]
        variables = {**os.environ, "FAULTS_EVENTS": str(self.events_file), **environment}
        variables.pop("MUSTELA_FAULT_POINT", None)
        if point:
            variables |= {"MUSTELA_FAULT_POINT": point, "MUSTELA_FAULT_DIR": str(directory)}
        with self.output_file.open("ab") as output:
            self._process = subprocess.Popen(
                [*wrapper, sys.executable, "-m", module, kind],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, if it has ended."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it has come so far that it makes epochs, and lives."""
        started = any(event.get("state") == "running" for event in self.events())
        return started and self.returncode is None

    def events(self) -> list[dict[str, Any]]:
        """Return the events so far."""
        if not self.events_file.exists():
            return []
        lines = self.events_file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def epochs(self) -> int:
        """Return how many epochs this run has committed."""
        return sum(event["event"] == "epoch" for event in self.events())

    def clock_off(self) -> float | None:
        """Return by how many seconds the clock of its last epoch was off, as far as that is known.

        An epoch is a moment old when its event is found.
        """
        found = [event for event in self.events()[-3:] if event["event"] == "epoch"]
        return found[-1]["now"] - time.time() if found else None

    def restored(self) -> int:
        """Return how many changelog records this run has read."""
        events = self.events()
        restores = [event["records"] for event in events if event["event"] == "restoring"]
        late = [event["restored"] for event in events if event["event"] == "epoch"]
        return sum(sum(counts.values()) for counts in (*restores[-1:], *late))

    def send_signal(self, number: int) -> None:
        """Send the application a signal."""
        self._process.send_signal(number)

    def stacks(self) -> str:
        """Let it print what its threads are at; return the last part of what it printed."""
        if self.returncode is None:
            self.send_signal(signal.SIGUSR1)
            time.sleep(1.0)
        return self.text()

    def text(self) -> str:
        """Return what it printed, its last part."""
        return self.output_file.read_text(encoding="utf-8", errors="replace")[-4000:]

    def wait_for(
        self, what: str, reached: Callable[[], bool], timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until ``reached``.

        Raises:
            ChildEndedError: If the application ends, or the time is up, first.
        """
        for found in looks(reached, timeout_s):
            if found:
                return
            if self.returncode is not None and not reached():
                how = f"ended with {self.returncode}"
                break
        else:
            how = f"is not there in {timeout_s:g} s"
        msg = f"waiting for {what}: the application {how}\n{self.events()[-3:]}\n{self.text()}"
        raise ChildEndedError(msg)

    def wait_for_point(self) -> None:
        """Wait until some process of it has come to the point."""
        self.wait_for(self.point, (self.directory / self.point).exists)

    def wait_for_epochs(self, count: int) -> None:
        """Wait until this run has committed so many epochs."""
        self.wait_for(f"{count} epochs", lambda: self.epochs() >= count)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it has ended; return its exit code."""
        return self._process.wait(timeout_s)

    def processes(self) -> list[psutil.Process]:
        """Return everything that lives of it: its children, and whatever is in its session."""
        found: dict[int, psutil.Process] = {}
        try:
            root = psutil.Process(self.pid)
            found = {child.pid: child for child in (root, *root.children(recursive=True))}
        except psutil.NoSuchProcess:
            pass
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid:
                    found.setdefault(process.pid, process)
            except (ProcessLookupError, PermissionError):
                continue
        return [process for process in found.values() if _lives(process)]

    def workers(self) -> list[psutil.Process]:
        """Return its Spark Python workers: the daemon's children."""
        result: list[psutil.Process] = []
        for process in self.processes():
            parent = process.parent()
            if parent is not None and "mustela.spark.daemon" in _command(parent):
                result.append(process)
        return result

    def kill(self) -> int:
        """Kill the whole tree with SIGKILL; return how many processes there were."""
        count = 0
        deadline = time.monotonic() + PATIENCE_S
        while living := self.processes():
            count = max(count, len(living))
            for process in living:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            # Whoever waits for the driver first gets its exit code, and that is to be us.
            psutil.wait_procs([p for p in living if p.pid != self.pid], timeout=5)
            if time.monotonic() > deadline:
                msg = f"these do not die: {living}"
                raise ChildEndedError(msg)
        self._process.wait(PATIENCE_S)
        return count

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Ask it to stop, as Ctrl-C does; return its exit code."""
        if self.returncode is None:
            self.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            msg = f"the application does not stop\n{self.events()[-3:]}\n{self.stacks()}"
            raise ChildEndedError(msg) from error
        finally:
            self.kill()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
