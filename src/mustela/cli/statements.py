"""mustela sql: one SELECT over the stores of a running application."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mustela.cli.console import ExitCode, Json, print_json, print_table
from mustela.cli.settings import loose_settings
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.client.client import Client

__all__ = ["NoServerError", "sql"]

_TIMEOUT = timedelta(minutes=5)


class NoServerError(UsageError):
    """There is no admin server of an application to ask."""

    code = "CLI_NO_SERVER"


def sql(
    application: Annotated[str, Parameter(name="URL|MODULE:APP|APPLICATION-ID")],
    statement: str,
    /,
    *,
    certificate: Annotated[
        Path | None, Parameter(name="--certificate", help="The server's certificate, of a URL.")
    ] = None,
    min_epoch: Annotated[
        int | None, Parameter(name="--min-epoch", help="First wait until it is committed.")
    ] = None,
    json: Json = False,
) -> int:
    """Ask the stores of a running application, or of a replica, with one SELECT.

    Each store is a table. EXPLAIN before the SELECT shows what is read of each store. A statement
    of one hyphen is read from standard input.

    Args:
        application: The address of its admin server, with the token of admin.query_token; or an
            application that runs on this host as this user, or has a replica here, which is asked
            where its file says.
        statement: The SELECT.
        certificate: File with the certificate to trust.
        min_epoch: The epoch to wait for.
        json: Print the answer as JSON.
    """
    from mustela.client.asking import statement as asked_statement, told_result

    text = sys.stdin.read() if statement == "-" else statement
    with _client(application, certificate) as client:
        document = client.ask(asked_statement(text, min_epoch))
    if json:
        print_json(document)
        return ExitCode.OK
    found = told_result(document)
    if found.columns == ("plan",):
        print("\n".join(str(line) for (line,) in found.rows))
        return ExitCode.OK
    print_table(found.columns, [[_told(value) for value in row] for row in found.rows])
    return ExitCode.OK


def _client(application: str, certificate: Path | None) -> Client:
    from mustela.client.client import Client

    if application.startswith(("http://", "https://")):
        token = loose_settings().admin.query_token
        return Client(application, token=token, certificate=certificate, timeout=_TIMEOUT)
    from mustela.cli.living import server_here
    from mustela.cli.repairing import settings_of

    settings = settings_of(application, None)
    server = server_here(settings)
    if server is None:
        msg = f"no admin server of {settings.application_id}, or of its replicas, is on this host"
        raise NoServerError(
            msg,
            why="it does not run here as this user with admin.enabled, or in another state_dir",
            fix="start it with admin.enabled, or a replica (mustela serve), or give the server's "
            "address: mustela sql http://…",
        )
    access = server.access
    return Client(
        access.address,
        token=access.tokens.query,
        certificate=access.certificate or None,
        timeout=_TIMEOUT,
    )


def _told(value: Any) -> str:
    if value is None:
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else str(value).replace("\n", " ")
