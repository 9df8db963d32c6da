"""The output of the demonstration: program, progress, words, checks, and next commands."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mustela.clock import SystemClock

__all__ = ["DemoOutcome", "Screen", "State", "mustela_command", "next_lines"]

COMMONEST = 20
PLAIN_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The fields that ``--json`` prints.

    Attributes:
        lines: Lines of the input.
        words: Words in them.
        distinct: Different words.
        mismatches: Words with a wrong count, and lines that were changed.
        missing: Ids missing from the side stream.
        duplicates: Rows of the side stream that are there once too often.
        torn_epochs: Epochs whose output does not match the lines they read.
        seconds: From the first line fed until all were committed.
        lines_per_s: Lines per second.
        epochs: Committed epochs.
        kills: How often the whole application was killed.
        replayed_epochs: Epochs that were run again.
    """

    lines: int
    words: int
    distinct: int
    mismatches: int
    missing: int
    duplicates: int
    torn_epochs: int
    seconds: float
    lines_per_s: float
    epochs: int
    kills: int
    replayed_epochs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The contents of the progress display.

    Attributes:
        lines: Committed lines.
        total: Lines of the input.
        words: Committed words.
        epochs: Committed epochs.
        lag: Waiting lines.
        lanes: Lanes of the application.
        kills: Kills so far.
    """

    lines: int
    total: int
    words: int
    epochs: int
    lag: int
    lanes: int
    kills: int

    def text(self) -> str:
        """Render as one line."""
        kills = f"  kills {self.kills}" if self.kills else ""
        return (
            f"lines {self.lines:,} of {self.total:,}  words {self.words:,}  "
            f"epochs {self.epochs}  lag {self.lag:,}  lanes {self.lanes}{kills}"
        )


class Screen:
    """Prints for people: a live display on a terminal, periodic lines elsewhere.

    Args:
        quiet: Whether standard output is read by a program: print only what matters, to standard
            error.
        console: For tests.
    """

    def __init__(self, *, quiet: bool, console: Console | None = None) -> None:
        self._quiet = quiet
        self._console = console or Console(stderr=quiet, highlight=False, soft_wrap=True)
        self._clock = SystemClock()
        self._shown_at = 0.0
        self._shown: str = ""
        self._progress = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._task = self._progress.add_task("", total=1)
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=5)

    def __enter__(self) -> Self:
        """Start the progress display."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last state on the screen."""
        if self._console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    def program(self, source: str, command: str) -> None:
        """Show the running program."""
        if self._quiet:
            return
        self._console.print()
        if self._console.is_terminal:
            self._console.print(Syntax(source.rstrip(), "python", background_color="default"))
        else:
            self._console.print(source.rstrip(), markup=False)
        self._console.print(f"\n$ {command}\n", markup=False)

    def update(self, state: State, *, last: bool = False) -> None:
        """Show the progress."""
        text = state.text()
        if self._console.is_terminal:
            self._shown = text
            self._progress.update(self._task, completed=state.lines, total=state.total)
            return
        now = self._clock.monotonic()
        if last or (now - self._shown_at >= PLAIN_EVERY_S and text != self._shown):
            self._shown_at, self._shown = now, text
            self.say(text)

    def _render(self) -> RenderableType:
        """Return two lines, to fit a terminal of 80 columns."""
        return Group(self._progress, Text(self._shown, overflow="fold"))

    def words(self, commonest: Sequence[tuple[str, int]]) -> None:
        """Show the commonest words, as they were read from the topic."""
        if self._quiet:
            return
        table = Table(title=f"the {len(commonest)} commonest words", box=None, pad_edge=False)
        for name in ("word", "count", "word", "count"):
            table.add_column(name, justify="right" if name == "count" else "left")
        half = (len(commonest) + 1) // 2
        for row in range(half):
            cells: list[str] = []
            for word, count in commonest[row::half]:
                cells += [_plain(word), f"{count:,}"]
            table.add_row(*cells)
        self._console.print()
        self._console.print(table)
        self._console.print()

    def outcome(self, outcome: DemoOutcome, faults: Sequence[str], seconds: float) -> None:
        """Show the checks and what they found."""
        lines = [
            f"counts topic against collections.Counter: {outcome.mismatches} of "
            f"{outcome.distinct:,} words differ",
            f"side stream: {outcome.missing} ids missing, {outcome.duplicates} twice",
            f"epochs: {outcome.torn_epochs} of {outcome.epochs} torn",
        ]
        if not self._quiet:
            for line in lines:
                self.say(f"check  {line}")
            rate = f"{outcome.lines_per_s:,.0f} lines/s"
            kills = ""
            if outcome.kills:
                kills = (
                    f", killed {outcome.kills} times, {outcome.replayed_epochs} epochs run again"
                )
            self.say(
                f"\n{outcome.lines:,} lines, {outcome.words:,} words in {outcome.seconds:.1f} s "
                f"({rate}), {outcome.epochs} epochs{kills}; checked in {seconds:.1f} s"
            )
        for fault in faults:
            self.say(f"FAULT  {fault}")
        if not self._quiet:
            self.say("all checks passed" if not faults else "the checks found faults")

    def next(self, lines: Sequence[str]) -> None:
        """Show what to type next."""
        self.say("\nthe broker and the application keep running; what to type next:\n")
        for line in lines:
            self.say(f"  {line}")


def mustela_command() -> str:
    """Return the shell command for this ``mustela``."""
    beside = Path(sys.executable).with_name("mustela")
    found = shutil.which("mustela")
    if found is not None and (not beside.exists() or Path(found).samefile(beside)):
        return "mustela"
    if beside.exists():
        return shlex.quote(str(beside))
    return f"{shlex.quote(sys.executable)} -m mustela.cli.main"


def next_lines(command: str, *, home: Path, scratch: Path, application_id: str) -> list[str]:
    """Return commands to type after ``--keep``."""
    return [
        f"cd {shlex.quote(str(home))}",
        f"{command} send lines my-file 'to be or not to be'",
        f"{command} tail counts --value int --from-beginning --max 5",
        f"{command} tail lines-copy --json",
        f"{command} kafka-consumer-groups --describe --group {application_id}",
        "",
        f"{command} demo --stop {shlex.quote(str(scratch))}",
    ]


def outcome_fields(outcome: DemoOutcome) -> dict[str, int | float]:
    """Return the fields to print as JSON."""
    return asdict(outcome)


def _plain(word: str) -> str:
    """Escape a word so that it is not taken for rich's markup and does not break the table."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in word)
    return shown.replace("[", "\\[")
