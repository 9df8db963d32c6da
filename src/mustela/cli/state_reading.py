"""mustela state list, get, range, count and export: rows of stores, wherever they are."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from mustela.cli.asking import Application
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table, say
from mustela.cli.repairing import moment_ms, settings_of
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.admin.client import AdminClient
    from mustela.admin.data.standing import StateAnswers
    from mustela.config.settings import Settings

__all__ = ["count_rows", "export", "get", "list_stores", "open_state", "range_rows"]

Source = Literal["server", "replica", "directory", "changelogs"]
Store = Annotated[str, Parameter(name="STORE")]
_MOMENTS = ("as_of", "time_from", "time_to")


class NoStateHereError(UsageError):
    """Nothing that could be asked runs on this host, and the program was not named."""

    code = "STATE_NOT_FOUND"


class ExportFileError(UsageError):
    """The file of an export cannot be written."""

    code = "STATE_EXPORT_FILE"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where state is read.

    Attributes:
        source: Only there.
        url: An admin server, or a replica, anywhere.
        bootstrap_servers: The brokers.
    """

    source: Annotated[
        Source | None,
        Parameter(
            name="--source",
            help="Read only there; by default the first that there is: the admin server of the "
            "running application on this host, a replica on this host, the directory of state, "
            "the changelogs.",
        ),
    ] = None
    url: Annotated[
        str | None,
        Parameter(
            name="--url",
            help="Ask the admin server or the replica at this address, with the token in "
            "MUSTELA__ADMIN__QUERY_TOKEN.",
        ),
    ] = None
    bootstrap_servers: Bootstrap = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Which rows.

    Attributes:
        low: The lowest key.
        high: The highest key.
        prefix: What keys begin with.
        time_from: The earliest time.
        time_to: The latest time.
    """

    low: Annotated[str | None, Parameter(name="--from", help="The lowest key.")] = None
    high: Annotated[str | None, Parameter(name="--to", help="The highest key, included.")] = None
    prefix: Annotated[str | None, Parameter(name="--prefix", help="What keys begin with.")] = None
    time_from: Annotated[
        str | None,
        Parameter(
            name="--time-from",
            help="The earliest start of windows, or end of sessions: 2026-05-04T10:00:00Z, or "
            "milliseconds.",
        ),
    ] = None
    time_to: Annotated[
        str | None, Parameter(name="--time-to", help="The latest start, included.")
    ] = None

    def parameters(self, **more: str | None) -> dict[str, str]:
        """Return them as an address has them."""
        given = {
            "from": self.low,
            "to": self.high,
            "prefix": self.prefix,
            "time_from": self.time_from,
            "time_to": self.time_to,
            **more,
        }
        return {
            name: _moment(value) if name in _MOMENTS else value
            for name, value in given.items()
            if value is not None
        }


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """How many rows, and in which order.

    Attributes:
        limit: The most rows.
        reverse: The last row first.
        versions: All versions, of a versioned store.
    """

    limit: Annotated[int, Parameter(name="--limit", help="The most rows.")] = 100
    reverse: Annotated[
        bool, Parameter(name="--reverse", negative=(), help="The last row first.")
    ] = False
    versions: Annotated[
        bool, Parameter(name="--versions", negative=(), help="All versions of each key.")
    ] = False


_ANYWHERE, _ALL, _FIRST = Where(), Rows(), Page()


def list_stores(
    application: Application, /, *, where: Where = _ANYWHERE, json: Json = False
) -> int:
    """List the stores: name, kind, serdes, and rows and bytes where they are known.

    Args:
        application: The application; its id alone is enough for one that runs on this host.
        where: Where state is read.
        json: Print JSON.
    """
    with open_state(application, where) as state:
        found = state.ask()
    if json:
        print_json(found)
        return ExitCode.OK
    head = ["store", "kind", "key", "value", "rows", "bytes"]
    print_table(head, ([_told(store[name]) for name in head] for store in found["stores"]))
    return ExitCode.OK


def get(
    application: Application,
    store: Store,
    key: Annotated[str, Parameter(name="KEY", allow_leading_hyphen=True)],
    /,
    *,
    as_of: Annotated[
        str | None, Parameter(name="--as-of", help="The time whose value is wanted.")
    ] = None,
    what: Annotated[
        Literal["windows", "sessions", "versions"] | None,
        Parameter(name="--show", help="All windows, sessions or versions of the key."),
    ] = None,
    where: Where = _ANYWHERE,
) -> int:
    """Print the row of a key as JSON; the exit code is 1 if there is none.

    A key is written as in an address: text as it is, numbers as numbers, everything else as JSON.

    Args:
        application: The application; its id alone is enough for one that runs on this host.
        store: The store.
        key: The key.
        as_of: The time, of a versioned store.
        what: All of them, one per line.
        where: Where state is read.
    """
    parameters = {} if as_of is None else {"as_of": _moment(as_of)}
    with open_state(application, where) as state:
        if what is not None:
            for page in state.pages((store, key, what), parameters):
                _print_rows(page[what])
            return ExitCode.OK
        found = state.find(store, key, **parameters)
    if found is None:
        say("there is no row of this key")
        return ExitCode.FAULT
    found.pop("epoch", None)
    _print_rows([found])
    return ExitCode.OK


def range_rows(
    application: Application,
    store: Store,
    /,
    *,
    rows: Rows = _ALL,
    page: Page = _FIRST,
    where: Where = _ANYWHERE,
) -> int:
    """Print rows in order, as JSON, one per line.

    Args:
        application: The application; its id alone is enough for one that runs on this host.
        store: The store.
        rows: Which rows.
        page: How many, and in which order.
        where: Where state is read.
    """
    flags = {"reverse": page.reverse, "versions": page.versions}
    parameters = rows.parameters(**{name: "true" for name, given in flags.items() if given})
    with open_state(application, where) as state:
        for found in state.pages((store,), parameters, limit=page.limit):
            if "continued_from_epoch" in found:
                say(f"from here on as of epoch {found['epoch']}")
            _print_rows(found["rows"])
    return ExitCode.OK


def count_rows(
    application: Application,
    store: Store,
    /,
    *,
    rows: Rows = _ALL,
    where: Where = _ANYWHERE,
    json: Json = False,
) -> int:
    """Count rows, all of one epoch.

    Args:
        application: The application; its id alone is enough for one that runs on this host.
        store: The store.
        rows: Which rows.
        where: Where state is read.
        json: Print JSON.
    """
    with open_state(application, where) as state:
        count, epoch = state.count(store, rows.parameters())
    if json:
        print_json({"store": store, "count": count, "epoch": epoch})
    else:
        print(count)
    return ExitCode.OK


def export(
    application: Application,
    store: Store,
    file: Annotated[str, Parameter(name="FILE", allow_leading_hyphen=True)],
    /,
    *,
    rows: Rows = _ALL,
    where: Where = _ANYWHERE,
    json: Json = False,
) -> int:
    """Write the rows of a store, all of one epoch, to a file.

    FILE ends in .parquet, or in .jsonl for a JSON document per line; - writes such lines to
    standard output. Of a versioned store all versions are written. `mustela state import` reads
    both.

    Args:
        application: The application; its id alone is enough for one that runs on this host.
        store: The store.
        file: The file; one that exists is replaced when all is written.
        rows: Which rows.
        where: Where state is read.
        json: Print what was done as JSON.
    """
    from mustela.admin.data.files import RowFile, form_of_file

    form = form_of_file(file)
    with open_state(application, where) as state:
        described = next((one for one in state.ask()["stores"] if one["store"] == store), None)
        more = {"versions": "true"} if described and described["kind"] == "versioned" else {}
        written, epoch = 0, 0
        serdes = {name: str(described[name]) for name in ("key", "value")} if described else {}
        with _target(file) as path, RowFile.writing(path, form, serdes) as target:
            for page in state.pages((store,), rows.parameters(**more), whole=True):
                target.write(page["rows"])
                written, epoch = written + len(page["rows"]), page["epoch"]
    if json:
        say_to = print_json if file != "-" else _say_json
        say_to({"store": store, "rows": written, "epoch": epoch, "file": file})
    else:
        say(f"wrote {written} rows of {store} as of epoch {epoch} to {file}")
    return ExitCode.OK


def _say_json(document: Any) -> None:
    say(json_text.dumps(document))


@contextmanager
def _target(file: str) -> Generator[Path | None]:
    """Give a file beside the one that is meant, which takes its place at the end.

    Raises:
        ExportFileError: If it cannot be written.
    """
    if file == "-":
        yield None
        return
    path = Path(file)
    beside = path.with_name(f".{path.name}.part")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror}"
        raise ExportFileError(what, fix="name a file in a directory that is there") from error
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def open_state(application: str, where: Where) -> Generator[StateAnswers]:
    """Give what answers questions about an application's stores, from where they are."""
    settings = settings_of(application, where.bootstrap_servers)
    with ExitStack() as stack:
        server = None if where.source in ("directory", "changelogs") else _server(settings, where)
        if server is not None:
            from mustela.admin.data.standing import RemoteState

            say(f"asks {server.access.address}")
            yield RemoteState(server)
            return
        if where.source in ("server", "replica") or ":" not in application:
            raise _not_found(settings, where.source)
        yield stack.enter_context(_standing(application, settings, where))


def _server(settings: Settings, where: Where) -> AdminClient | None:
    from mustela.admin.access import Access, Tokens
    from mustela.admin.client import AdminClient
    from mustela.cli.living import server_here
    from mustela.client.connecting import checked_address

    if where.url is not None:
        access = Access(
            application_id=settings.application_id,
            address=checked_address(where.url),
            certificate="",
            pid=0,
            tokens=Tokens.of(settings),
        )
        return AdminClient(access, elsewhere=True)
    return server_here(
        settings, running=where.source != "replica", replicas=where.source != "server"
    )


@contextmanager
def _standing(application: str, settings: Settings, where: Where) -> Generator[StateAnswers]:
    from mustela.admin.data.standing import StandingState
    from mustela.cli.loading import load_app
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_world import kafka_world
    from mustela.runtime.replica.committed_state import committed_state
    from mustela.runtime.start.recovery import Recovery

    clock, plan = SystemClock(), load_app(application).built_plan()
    only = None if where.source not in ("directory", "changelogs") else where.source
    with ExitStack() as stack:
        world = kafka_world(settings, clock)
        stack.callback(world.cluster.close)
        examine = Recovery(settings, plan, world).examine
        source = stack.enter_context(
            committed_state(settings, plan, examine=examine, say=say, only=only)
        )
        state = StandingState(source, clock)
        stack.callback(state.close)
        yield state


def _not_found(settings: Settings, source: str | None) -> NoStateHereError:
    name = settings.application_id
    if source in ("server", "replica"):
        what = f"no {'admin server' if source == 'server' else 'replica'} of {name} runs here"
        fix = "leave --source out, or give the address of one elsewhere: --url"
    elif source is not None:
        kept = "topics" if source == "changelogs" else "files"
        what = f"the {kept} of {name} are read with the types of its program, which was not named"
        fix = "name the program, as in shop:app, instead of the application's id"
    else:
        what = f"neither {name} nor a replica of it runs here with an admin server"
        fix = "name its program, as in shop:app: then the directory and the changelogs are read"
    return NoStateHereError(what, evidence={"looked in": settings.state_dir}, fix=fix)


def _moment(text: str) -> str:
    return text if text.isascii() and text.isdigit() else str(moment_ms(text))


def _told(value: object) -> object:
    return "" if value is None else value


def _print_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    for line in _lines(rows):
        print(line)


def _lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json_text.dumps(row, ensure_ascii=sys.stdout.encoding.lower() != "utf-8")
