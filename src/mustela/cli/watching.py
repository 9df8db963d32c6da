"""The picture of ``mustela top``: made of two looks at an application."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mustela.cli.console import print_json

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["follow", "picture", "watch"]

Document = dict[str, Any]

_PARTITIONS: Final = 8
_STEPS: Final = 12
_STORES: Final = 6
_LANES: Final = 32
_BAR: Final = 24
_COLOURS: Final = {
    "choosing": "bright_black",
    "running": "blue",
    "in-hand": "cyan",
    "begun": "green",
    "produced": "bright_green",
    "offsets-added": "yellow",
    "commit-sent": "red",
}


def watch(look: Callable[[], Document], *, interval: float, once: bool) -> None:
    """Show an application until somebody ends it.

    Args:
        look: Looks at it.
        interval: Seconds between looks.
        once: Show it once; as where nobody looks at a terminal.
    """
    from rich.console import Console
    from rich.live import Live

    from mustela.clock import SystemClock

    clock, console = SystemClock(), Console()
    before = look()
    if once or not sys.stdout.isatty():
        clock.sleep(interval)
        console.print(picture(before, look()))
        return
    try:
        with Live(picture(None, before), console=console, screen=True, auto_refresh=False) as live:
            while True:
                clock.sleep(interval)
                now = look()
                live.update(picture(before, now), refresh=True)
                before = now
    except KeyboardInterrupt:
        return


def follow(look: Callable[[], Document], *, interval: float, once: bool) -> None:
    """Print what each look shows as JSON, a line each; arguments as of `watch`."""
    from mustela.clock import SystemClock

    clock = SystemClock()
    try:
        print_json(look())
        while not once:
            clock.sleep(interval)
            print_json(look())
    except KeyboardInterrupt:
        return


def picture(before: Document | None, now: Document) -> RenderableType:
    """Return what is shown.

    Args:
        before: An earlier look; None before there is one.
        now: The last one.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_head(before, now), Text("")]
    if now.get("recent"):
        parts += [_phases(now), Text("")]
    if now.get("tasks"):
        parts += [_lanes(before, now), Text("")]
    if now["partitions"]:
        parts += [_partitions(before, now), Text("")]
    if now.get("steps"):
        parts += [_steps(before, now), Text("")]
    if now.get("stores"):
        parts.append(_stores(now))
    return Group(*parts)


def _head(before: Document | None, now: Document) -> RenderableType:
    from rich.text import Text

    state = now["state"]
    colour = {"running": "green", "failed": "red", "gone": "red"}.get(state, "yellow")
    line = Text.assemble((now["application_id"], "bold"), "  ", (state, f"bold {colour}"))
    if now.get("why"):
        line.append(f"  {now['why']}", "yellow")
    if now["source"] == "kafka":
        line.append("  from Kafka alone: no admin server of this user on this host", "dim")
    facts = [
        ("records/s", _short(_rate(before, now, _read))),
        ("lag", _short(now["lag"])),
        ("watermark behind", _behind(now)),
        ("epoch", _epoch(now)),
        ("epochs/s", _short(_rate(before, now, lambda seen: seen["epoch"] or 0))),
    ]
    line.append("\n")
    for name, value in facts:
        line.append(f"{name} ", "dim")
        line.append(f"{value}   ", "bold")
    return line


def _phases(now: Document) -> RenderableType:
    """Draw how the time of the last epochs is spent."""
    from rich.text import Text

    epochs = [one for one in now["recent"] if one["outcome"] == "committed"][-20:]
    spent: dict[str, float] = {}
    for epoch in epochs:
        for phase, seconds in epoch["phases"].items():
            spent[phase] = spent.get(phase, 0.0) + seconds / len(epochs)
    total = sum(spent.values())
    line = Text.assemble(("epochs ", "dim"), (f"{total * 1000:.0f} ms ", "bold"))
    for phase, seconds in spent.items():
        width = round(40 * seconds / total) if total else 0
        line.append("█" * width, _COLOURS.get(phase, "magenta"))
    line.append("\n")
    for phase, seconds in spent.items():
        line.append("■ ", _COLOURS.get(phase, "magenta"))
        line.append(f"{phase} {seconds * 1000:.0f} ms  ", "dim")
    flight = now.get("in_flight")
    if flight is not None:
        line.append(f"\nnow: epoch {flight['epoch']}, {flight['phase']}", "dim")
    if now.get("stuck_phase"):
        line.append(f"  stuck in {now['stuck_phase']}", "bold red")
    return line


def _lanes(before: Document | None, now: Document) -> Table:
    table = _table("stage", "lane", "records/s", "busy", "", "most in step")
    rates = [(_task_rate(before, now, task, "records"), task) for task in now["tasks"]]
    most = max((rate or 0.0 for rate, task in rates if task["stage"] > 0), default=0.0)
    for rate, task in rates[:_LANES]:
        busy = _task_rate(before, now, task, "busy_seconds")
        name = str(task["lane"]) if task["stage"] else f"task {task['lane']}"
        width = round(_BAR * (rate or 0.0) / most) if most and task["stage"] else 0
        told = "-" if busy is None else f"{busy * 100:.0f} %"
        bar = "█" * min(_BAR, width)
        slow = _slowest_step(before, now, task)
        table.add_row(str(task["stage"]), name, _short(rate), told, bar, slow)
    return table


def _slowest_step(before: Document | None, now: Document, task: Document) -> str:
    """Return the step in which a lane was longest between two looks, with its share of the time."""
    spent: dict[str, float] = {}
    for step in task.get("step_seconds", {}):

        def seconds(seen: Document, step: str = step) -> float:
            mine = (task["stage"], task["lane"])
            found = (one for one in seen["tasks"] if (one["stage"], one["lane"]) == mine)
            return next((one["step_seconds"].get(step, 0.0) for one in found), 0.0)

        spent[step] = _rate(before, now, seconds) or 0.0
    step = max(spent, key=spent.__getitem__, default="")
    return f"{step} {spent[step] * 100:.0f} %" if step and spent[step] > 0 else "-"


def _task_rate(before: Document | None, now: Document, task: Document, what: str) -> float | None:
    def count(seen: Document) -> float:
        mine = (task["stage"], task["lane"])
        found = (one for one in seen["tasks"] if (one["stage"], one["lane"]) == mine)
        return next((one[what] for one in found), 0)

    return _rate(before, now, count)


def _partitions(before: Document | None, now: Document) -> Table:
    table = _table("topic", "partition", "next", "lag", "records/s")
    for one in now["partitions"][:_PARTITIONS]:

        def read(seen: Document, place: Document = one) -> float:
            mine = (place["topic"], place["partition"])
            found = (at for at in seen["partitions"] if (at["topic"], at["partition"]) == mine)
            return next((at["next"] or 0 for at in found), 0)

        cells = (str(one["next"]), _short(one["lag"]), _short(_rate(before, now, read)))
        table.add_row(one["topic"], str(one["partition"]), *cells)
    return table


def _steps(before: Document | None, now: Document) -> Table:
    table = _table("step", "in/s", "out/s", "dropped, failed")

    def rate(step: str, way: str) -> float | None:
        return _rate(before, now, lambda seen: seen["steps"].get(step, {}).get(way, 0))

    rows = [(rate(step, "in") or 0.0, step) for step in now["steps"]]
    for _, step in sorted(rows, reverse=True)[:_STEPS]:
        lost = sum(now["lost"].get(step, {}).values())
        table.add_row(step, _short(rate(step, "in")), _short(rate(step, "out")), _short(lost))
    return table


def _stores(now: Document) -> Table:
    table = _table("store", "rows", "MiB")
    stores = sorted(now["stores"].items(), key=lambda pair: -pair[1]["bytes"])
    for name, size in stores[:_STORES]:
        table.add_row(name, _short(size["rows"]), f"{size['bytes'] / 2**20:.1f}")
    return table


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    texts = {"topic", "step", "store", "", "most in step"}
    for name in columns:
        table.add_column(name, justify="left" if name in texts else "right")
    return table


def _read(seen: Document) -> float:
    if "records" in seen:
        return seen["records"]
    return sum(one["next"] or 0 for one in seen["partitions"])


def _rate(before: Document | None, now: Document, of: Callable[[Document], float]) -> float | None:
    """Return how much more there is each second; None if that is not known."""
    if before is None or before["source"] != now["source"]:
        return None
    if before["incarnation"] != now["incarnation"]:
        return None
    if "monotonic" in now:
        seconds = now["monotonic"] - before["monotonic"]
    else:
        seconds = (now["now_ms"] - before["now_ms"]) / 1000
    more = of(now) - of(before)
    return more / seconds if seconds > 0 and more >= 0 else None


def _epoch(now: Document) -> str:
    return "-" if now["epoch"] is None else f"{now['epoch']} of run {now['incarnation']}"


def _behind(now: Document) -> str:
    if now["watermark_ms"] is None:
        return "-"
    return f"{max(0, now['now_ms'] - now['watermark_ms']) / 1000:.1f} s"


def _short(count: float | None) -> str:
    """Return a count as people read it.

    Example:
        >>> [_short(count) for count in (None, 0, 0.25, 12.5, 1_234, 5_600_000)]
        ['-', '0', '0.2', '12', '1.2k', '5.6M']
    """
    if count is None:
        return "-"
    if isinstance(count, int) and count < 1_000:
        return str(count)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return f"{count:.0f}" if count >= 10 or count == 0 else f"{count:.1f}"
