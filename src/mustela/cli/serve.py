"""mustela serve: a copy of an application's state that answers queries."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mustela.cli.applications import Assignments, Target, parse_assignments
from mustela.cli.console import ExitCode, Json, print_json
from mustela.cli.loading import load_app
from mustela.errors import UsageError

__all__ = ["serve"]


class NoStoresError(UsageError):
    """What is given with ``--stores`` names no store."""

    code = "CLI_STORES"


def serve(
    target: Target,
    /,
    *,
    stores: Annotated[
        str | None, Parameter(name="--stores", help="Only these stores, with commas between.")
    ] = None,
    listen: Annotated[
        str | None,
        Parameter(name="--listen", help="Where to listen, host:port: admin.listen for this run."),
    ] = None,
    set: Assignments = None,
    json: Json = False,
) -> int:
    """Serve an application's stores over HTTP from a replica, until it is stopped.

    A replica follows the changelogs into a directory of its own and shows one committed epoch at a
    time. It runs on any host, as often as wanted, also while the application is down, and writes
    nothing to Kafka. It needs neither Spark nor a JVM.

    The addresses, tokens and settings are those of the admin server (admin.…): /stores, /queries,
    /health, /info, /metrics. An event of /stores/…/changes may stand for several epochs.

    Args:
        target: The module, and the name of the application in it.
        stores: The stores that it keeps.
        listen: Where it listens.
        set: Settings for this run.
        json: Print what happens as JSON, one document per line.
    """
    from mustela.admin.replica.serving import ReplicaServer
    from mustela.cli.events import EventPrinter
    from mustela.logs.options import secrets_of
    from mustela.runtime.signals import stopped_by_signals

    app = load_app(target)
    given = parse_assignments(set or ())
    if listen is not None:
        given["admin.listen"] = listen
    app.configure(**given)
    name = app.settings.application_id
    printer = EventPrinter(name, secrets_of(app.settings.model_dump()))
    server = ReplicaServer(
        app,
        stores=None if stores is None else _names(stores),
        on_error=printer.on_error if json else lambda _error: None,
    )

    def ready(server: ReplicaServer) -> None:
        if json:
            told = {"address": server.address, "place": str(server.place)}
            print_json({"event": "serving", "application_id": name, **told})
        else:
            print(f"{name}: a replica answers at {server.address}", flush=True)
            print(f"  its copies are in {server.place}", flush=True)

    with stopped_by_signals(server.stop):
        server.run(ready)
    return ExitCode.OK


def _names(given: str) -> list[str]:
    """Return the stores that are named with commas between.

    Raises:
        NoStoresError: If there is none.

    Example:
        >>> _names("counts, totals")
        ['counts', 'totals']
    """
    found = [name.strip() for name in given.split(",") if name.strip()]
    if not found:
        what = "--stores names no store"
        raise NoStoresError(what, fix="name some, as --stores counts,totals, or leave it out")
    return found
