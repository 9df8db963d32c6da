"""mustela state import: exported rows into a store of a stopped application."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mustela.cli.applications import Target
from mustela.cli.asking import Manner
from mustela.cli.console import ExitCode, say
from mustela.cli.loading import load_app
from mustela.cli.repairing import go_ahead, report
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.plan.plan import Plan
    from mustela.queries.source import Edition
    from mustela.runtime.record.epoch_record import EpochRecord
    from mustela.runtime.repairs.repair import Repair
    from mustela.runtime.start.recovery import Recovery

__all__ = ["StoreNewError", "check_known", "import_rows"]

_PLAIN = Manner()


class StoreNotEmptyError(UsageError):
    """A store has rows, and nothing was said of them."""

    code = "STATE_IMPORT_NOT_EMPTY"


class StoreNewError(UsageError):
    """The application has not run with the store yet."""

    code = "STATE_IMPORT_NEW_STORE"


class BothWaysError(UsageError):
    """Rows cannot both stay and go."""

    code = "STATE_IMPORT_WAYS"


def import_rows(
    target: Target,
    store: Annotated[str, Parameter(name="STORE")],
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    merge: Annotated[
        bool, Parameter(name="--merge", negative=(), help="Keep rows that FILE does not have.")
    ] = False,
    replace: Annotated[
        bool, Parameter(name="--replace", negative=(), help="Delete rows that FILE does not have.")
    ] = False,
    manner: Manner = _PLAIN,
) -> int:
    """Write the rows of an export to a store, in one transaction; stop the application first.

    FILE is one of `mustela state export`, .jsonl or .parquet. All rows are checked before any is
    written. Offsets stay where they are, and nothing is written to output topics. An application
    that was never started is begun first, as its first start would: with its topics, and the
    offsets where it will start to read.

    Args:
        target: The module, and the name of the application in it.
        store: The store; without --merge or --replace it must have no rows.
        file: The file.
        merge: Keep the others.
        replace: Delete the others.
        manner: How the change is made.
    """
    from mustela.admin.data.files import read_rows
    from mustela.clock import SystemClock
    from mustela.runtime.takeover.first_start import started
    from mustela.runtime.takeover.importing import Importing

    if merge and replace:
        what = "--merge and --replace are both given"
        raise BothWaysError(what, fix="choose one of them")
    app = load_app(target)
    if manner.bootstrap_servers is not None:
        app.configure(bootstrap_servers=manner.bootstrap_servers)
    settings, plan = app.settings, app.built_plan()
    with ExitStack() as stack:
        repair, recovery = _opened(stack, settings, plan)
        sight = repair.look()
        record = sight.record
        groups = recovery.key_groups if record is None else record.key_groups
        importing = stack.enter_context(
            closing(Importing(plan, store, groups, SystemClock().now_ms()))
        )
        name, stage = importing.spec.log_name, plan.stages[importing.stage].identity
        told = [] if record else [f"begin {settings.application_id}, as its first start would"]
        edition = None
        if record is None:
            recovery.examine()
        else:
            check_known(record, name, store)
            edition = _committed(stack, settings, plan, recovery)
        importing.add(read_rows(file))
        if edition is not None and not (merge or replace):
            _refuse_rows(edition, store)
        told.append(f"write {importing.count} rows of {file} to {store}")
        if replace:
            told.append("delete its other rows")
        if not go_ahead(manner, settings, told, done="imported"):
            return ExitCode.OK
        if edition is None:
            sight = started(recovery, repair, sight)
            edition = _committed(stack, settings, plan, recovery)
        repair.fence(sight)
        rows = importing.written(edition, edition.stores[store], merge=merge)
        repair.import_rows(sight, (name, stage), rows)
    return report(manner, settings, told)


def _opened(stack: ExitStack, settings: Settings, plan: Plan) -> tuple[Repair, Recovery]:
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_world import kafka_world
    from mustela.runtime.repairs.repair import Repair
    from mustela.runtime.start.recovery import Recovery

    world = kafka_world(settings, SystemClock())
    repair = Repair(settings, world)
    stack.callback(repair.close)
    return repair, Recovery(settings, plan, world, say)


def check_known(record: EpochRecord, name: str, store: str) -> None:
    """Refuse a store that no start has known.

    Raises:
        StoreNewError: If it is one.
    """
    if name not in record.changelog_ends:
        what = f"the application has not run with the store {store!r} yet"
        raise StoreNewError(
            what,
            why="its changelog is made by the first start that has it",
            fix="start the application, stop it, and import then",
        )


def _committed(stack: ExitStack, settings: Settings, plan: Plan, recovery: Recovery) -> Edition:
    """Return what is committed; the gate has compared it with the program."""
    from mustela.runtime.replica.committed_state import committed_state

    examine = recovery.examine
    source = stack.enter_context(committed_state(settings, plan, examine=examine, say=say))
    return source.newest()


def _refuse_rows(edition: Edition, store: str) -> None:
    """Refuse a store that has rows, of which nothing was said.

    Raises:
        StoreNotEmptyError: If it has.
    """
    from mustela.runtime.takeover.importing import is_row

    place = edition.stores[store]
    for group in range(place.groups):
        with closing(edition.open(place.stage, group)) as view:
            rows = (key for key, _ in view.range(store, None, None) if is_row(place.spec, key))
            if next(rows, None) is not None:
                what = f"store {store!r} has rows"
                fix = "add --merge to keep those that the file does not have, or --replace to"
                raise StoreNotEmptyError(what, fix=f"{fix} delete them")
