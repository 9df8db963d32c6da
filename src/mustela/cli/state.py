"""mustela state: what an application keeps, changed while it does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mustela.cli.applications import Target
from mustela.cli.asking import Manner, confirm
from mustela.cli.clients import open_admin
from mustela.cli.console import ExitCode
from mustela.cli.living import refuse_while_alive
from mustela.cli.loading import load_app
from mustela.cli.repairing import open_repair

if TYPE_CHECKING:
    from mustela.runtime.dropping import Drop

__all__ = ["group"]

_PLAIN = Manner()


def group() -> App:
    """Return the commands ``mustela state …``."""
    app = App(name="state", help="Change what an application keeps.")
    app.command(drop)
    return app


def drop(
    target: Target, store: Annotated[str, Parameter(name="STORE")], /, *, manner: Manner = _PLAIN
) -> int:
    """Forget a store and delete its changelog: it begins empty, if the program still has it.

    Everything else stays, offsets too: the store is filled from the records that come from then on.
    Stop the application first.

    Args:
        target: The module, and the name of the application in it.
        store: The store.
        manner: How the change is made.
    """
    from mustela.runtime.dropping import drop_of

    app = load_app(target)
    if manner.bootstrap_servers is not None:
        app.configure(bootstrap_servers=manner.bootstrap_servers)
    settings, plan = app.settings, app.built_plan()
    name = settings.application_id
    with open_admin(settings.bootstrap_servers) as admin, open_repair(settings) as repair:
        sight = repair.look()
        dropped = drop_of(repair.recorded(sight), store, plan, name)
        told = _told(dropped)
        lines = [f"{name}: to be done", *(f"  {line}" for line in told)]
        if manner.dry_run:
            print("\n".join(lines))
            return ExitCode.OK
        if not manner.force:
            refuse_while_alive(settings)
        if not manner.yes:
            confirm(lines, what=f"nothing of {name} is dropped")
        repair.fence(sight)
        admin.delete([dropped.topic])  # before the record: see `Repair.drop`
        repair.drop(sight, dropped)
    for line in told:
        print(line)
    return ExitCode.OK


def _told(drop: Drop) -> list[str]:
    told = [f"forget the store {drop.store}", f"delete the topic {drop.topic}, if it is there"]
    if drop.claimed:
        told.append(f"begin the store {drop.claimed} empty at the next start")
    if drop.beside:
        told.append(f"restore {', '.join(drop.beside)} from changelogs then: they live beside it")
    return told
