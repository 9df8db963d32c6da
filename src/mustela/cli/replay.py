"""mustela replay: one epoch of an application, run again in this process."""

from __future__ import annotations

import pdb
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mustela.cli.applications import Target
from mustela.cli.console import (
    Bootstrap,
    ExitCode,
    Json,
    exit_code_of,
    print_json,
    print_table,
    say,
    show_error,
)
from mustela.cli.loading import load_app
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.runtime.app import App
    from mustela.runtime.record.history_row import HistoryRow
    from mustela.runtime.replica.past import Past
    from mustela.runtime.replica.written import Written
    from mustela.testing.replay import Replayed
    from mustela.testing.replay_texts import Difference, Output

__all__ = ["replay"]


_LINES_LOOKED_AT = 20


class NoBreakError(UsageError):
    """There is no function to stop in."""

    code = "REPLAY_BREAK"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Debugging:
    """Whether Python's debugger is used.

    Attributes:
        opens: Whether it opens.
        stop_in: A step in whose function it stops.
    """

    opens: Annotated[
        bool,
        Parameter(
            name="--pdb", negative=(), help="Open Python's debugger where a function raises."
        ),
    ] = False
    stop_in: Annotated[
        str | None,
        Parameter(name="--break", help="A step: open the debugger when its function is called."),
    ] = None


_PLAIN = Debugging()


def replay(
    target: Target,
    /,
    *,
    epoch: Annotated[int, Parameter(name="--epoch", help="The number of the epoch.")],
    program: Annotated[
        str | None,
        Parameter(name="--program", help="MODULE:APP of another version; shows what differs."),
    ] = None,
    debugging: Debugging = _PLAIN,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Run one epoch of an application again in this process, with its input and its state.

    Nothing is written to the brokers or to local state, and calls to the outside are not made:
    their results are those of then. Everything else that functions do, they do again. The epoch
    must be among the last history.epochs, or be the next one: the one that failed.

    Args:
        target: The module, and the name of the application in it.
        epoch: The number of the epoch.
        program: Another version of the program.
        debugging: Whether Python's debugger is used; with --program, for that program.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    from mustela.clock import SystemClock
    from mustela.runtime.replica.past import Past

    app = _loaded(target, bootstrap_servers)
    settings = app.settings
    past = Past(settings, app.built_plan(), target, SystemClock())
    try:
        row, is_exact = past.find(epoch)
        if not is_exact:
            say(
                f"nothing was kept of epoch {epoch}, which was not committed: it reads what comes"
                f" after epoch {epoch - 1}, up to the present end of the sources"
            )
        plainly = debugging if program is None else _PLAIN
        old = _made(app, settings, row, past, plainly)
        if program is None:
            is_known = is_exact and not row.failure and old.error is None
            if settings.processing_guarantee == "at_least_once":
                is_known = False  # rows may be there of an attempt that was not committed
            written = past.written(row) if is_known else None
            return _tell(app, row, old, written, json=json)
        other = _loaded(program, bootstrap_servers)
        mine = other.settings.with_values({"application_id": settings.application_id})
        new = _made(other, mine, row, past, debugging)
        return _compare((app, settings, old), (other, mine, new), row, json=json)
    finally:
        past.close()


def _loaded(target: str, bootstrap_servers: str | None) -> App:
    app = load_app(target)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    return app


def _made(
    app: App, settings: Settings, row: HistoryRow, past: Past, debugging: Debugging
) -> Replayed:
    from mustela.testing.replay import replay as run

    plan = app.built_plan()
    try:
        if debugging.stop_in is None:
            made = run(row, plan, settings, past)
        else:
            place = _place_of(app, debugging.stop_in)
            made = _under_debugger(lambda: run(row, plan, settings, past), place)
    except (Exception, SystemExit) as error:
        if debugging.opens:  # also for what is no error of a record: of a serde, of a setup
            _post_mortem(error)
        raise
    if debugging.opens and made.error is not None:
        _post_mortem(made.error)
    return made


def _place_of(app: App, step: str) -> tuple[str, int]:
    """Return file and line of the first function of a step.

    Raises:
        NoBreakError: If there is no such step, or it has none.
    """
    nodes = {node.name: node for node in app.built_topology()}
    node = nodes.get(step)
    if node is None:
        what = f"there is no step {step!r}"
        names = ", ".join(sorted(nodes))
        raise NoBreakError(what, evidence={"steps": names}, fix="name one of them: --break STEP")
    for name in getattr(type(node), "__dataclass_fields__", {}):
        code = getattr(getattr(node, name, None), "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno
    what = f"the step {step!r} has no function"
    raise NoBreakError(what, fix="leave out --break: the debugger opens where a function raises")


def _under_debugger(work: Callable[[], Replayed], place: tuple[str, int]) -> Replayed:
    """Run something, and open the debugger when it comes to a function."""
    debugger = pdb.Pdb(nosigint=True)
    file, line = place
    lines = range(line + 1, line + 1 + _LINES_LOOKED_AT)
    for nth in (*lines, line):  # a lambda, or a function without a body, has but one line
        if debugger.set_break(file, nth) is None:
            break
    made: list[Replayed] = []
    debugger.rcLines.append("continue")
    debugger.runcall(lambda: made.append(work()))
    return made[0]


def _post_mortem(error: BaseException) -> None:
    """Open the debugger in the innermost frame of what the user's function raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    say(f"{type(error).__name__}: {error}")
    pdb.post_mortem(error.__traceback__)


def _head(row: HistoryRow, made: Replayed) -> dict[str, Any]:
    return {
        "epoch": row.epoch,
        "now": datetime.fromtimestamp(row.now_ms / 1000, UTC).isoformat(),
        "records": made.records,
    }


def _notes(made: Replayed) -> list[str]:
    told: list[str] = []
    if made.unlogged:
        told.append(f"stores without a changelog were empty: {', '.join(made.unlogged)}")
    if made.calls:
        told.append(f"{len(made.calls)} calls were not made, because no result of them was kept")
    return told


def _tell(app: App, row: HistoryRow, made: Replayed, written: Written | None, *, json: bool) -> int:
    from mustela.testing.replay_texts import Shower, deviations, shown_output

    settings = app.settings
    shower = Shower(app.built_plan(), app.built_topology(), settings)
    found = list(shown_output(made, shower))
    notes = _notes(made)
    compared, differing = (0, []) if written is None else deviations(written, made, shower)
    if written is not None:
        notes += [
            f"not compared with what was written: {name}, {why}"
            for name, why in sorted(written.unknown.items())
        ]
    if json:
        head = {**_head(row, made), "failed": _code_of(made), "notes": notes}
        if written is not None:
            head |= {"compared": compared, "differences": len(differing)}
        print_json(head)
        for one in found:
            print_json(one.document())
        for one in differing:
            print_json(_document(one))
    else:
        for note in notes:
            say(note)
        head = _head(row, made)
        print(
            f"epoch {row.epoch} of {settings.application_id}, {head['now']}: "
            f"{made.records} records, {len(found)} rows"
        )
        if found:
            print_table(["", "key", "value", "time"], map(_cells, found))
        if written is not None:
            _tell_written(row, compared, differing)
    return _ended(made)


def _tell_written(row: HistoryRow, compared: int, differing: list[Difference]) -> None:
    """Say whether a replay gives what the epoch has written."""
    if not differing:
        print(f"the same as epoch {row.epoch} wrote: {compared} rows and changes")
        return
    print(f"not the same as epoch {row.epoch} wrote: {_counted(differing)}")
    print_table(["", "", "key", "written", "replayed"], map(_difference_cells, differing))


def _cells(one: Output) -> list[str]:
    return [f"{one.kind} {one.name}", _text(one.key), _text(one.value), str(one.timestamp or "")]


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _code_of(made: Replayed) -> str | None:
    return None if made.error is None else made.error.code


def _ended(made: Replayed) -> int:
    if made.error is None:
        return ExitCode.OK
    show_error(made.error, debug=False)
    return exit_code_of(made.error)


def _compare(
    old: tuple[App, Settings, Replayed],
    new: tuple[App, Settings, Replayed],
    row: HistoryRow,
    *,
    json: bool,
) -> int:
    from mustela.testing.replay_texts import Shower, differences

    showers = [Shower(app.built_plan(), app.built_topology(), own) for app, own, _ in (old, new)]
    found = list(differences(old[2], new[2], *showers))
    for note in _notes(new[2]):
        say(note)
    if json:
        failed = {"failed": _code_of(old[2]), "program_failed": _code_of(new[2])}
        print_json({**_head(row, old[2]), **failed, "differences": len(found)})
        for one in found:
            print_json(_document(one))
    else:
        print(f"epoch {row.epoch}: {old[2].records} records, {_counted(found)}")
        if found:
            head = ["", "", "key", "before", "after"]
            print_table(head, map(_difference_cells, found))
    for made in (old[2], new[2]):
        if made.error is not None:
            show_error(made.error, debug=False)
    return ExitCode.OK if new[2].error is None else exit_code_of(new[2].error)


def _counted(found: Iterable[Difference]) -> str:
    kinds = [one.change for one in found]
    if not kinds:
        return "no difference"
    return ", ".join(f"{kinds.count(kind)} rows {kind}" for kind in ("added", "removed", "changed"))


def _difference_cells(one: Difference) -> list[str]:
    either = one.either
    return [
        one.change,
        f"{either.kind} {either.name}",
        _text(either.key),
        "" if one.old is None else _shown(one.old),
        "" if one.new is None else _shown(one.new),
    ]


def _shown(one: Output) -> str:
    return _text(one.value) if one.timestamp is None else f"{_text(one.value)} @{one.timestamp}"


def _document(one: Difference) -> dict[str, Any]:
    return {
        "difference": one.change,
        **one.either.document(),
        "before": None if one.old is None else one.old.value,
        "after": None if one.new is None else one.new.value,
    }
