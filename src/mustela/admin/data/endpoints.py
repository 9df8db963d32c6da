"""The endpoints for data, over whatever gives out snapshots: an application, or a replica."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

import msgspec

from mustela.admin.access import Scope
from mustela.admin.data.application import DataApplication, is_stream
from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.changes import ChangeStreams
from mustela.admin.data.cursors import Cursors
from mustela.admin.data.frames import FrameService
from mustela.admin.data.functions import FunctionService
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.openapi import description
from mustela.admin.data.row_streams import RowStreams
from mustela.admin.data.service import DataService, Limits, Reply, refusal_of, refused
from mustela.admin.data.statements import SqlService
from mustela.admin.endpoints import Endpoint
from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import MustelaError
from mustela.queries.functions import QueryFunction
from mustela.queries.queries import Queries
from mustela.runtime.status.change_ring import ChangeRing
from mustela.sql.process import SqlLimits

__all__ = ["DataSource", "data_endpoints"]

_SQL_MEMORY: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """What can be asked.

    Attributes:
        settings: The application's settings.
        queries: What reads its stores.
        clock: Monotonic time.
        changes: What the last epochs changed, if that is known here.
        functions: The user's own queries by name.
        sizes: Returns rows and bytes of the stores, as far as they are known.
        say: Called with a line for each request, if they are logged.
    """

    settings: Settings
    queries: Queries
    clock: Clock
    changes: ChangeRing | None = None
    functions: Mapping[str, QueryFunction] = field(default_factory=dict[str, QueryFunction])
    sizes: Callable[[], Mapping[str, tuple[int, int]]] = dict
    say: Callable[[str], None] = print


def data_endpoints(source: DataSource) -> tuple[Endpoint, ...]:
    """Return the endpoints ``/stores``, ``/frames``, ``/queries``, ``/sql``, ``/openapi.json``.

    Args:
        source: What can be asked.
    """
    admin, now = source.settings.admin, source.clock.monotonic
    limits = Limits(seconds=admin.request_timeout.total_seconds() * 0.4)
    hidden = Hidden(admin.hidden_store_names, admin.hidden_field_names)
    frames = FrameService(source.queries, hidden=hidden, limits=limits, now=now)
    service = DataService(
        source.queries,
        cursors=Cursors(secrets.token_bytes(32)),
        hidden=hidden,
        limits=limits,
        now=now,
        sizes=source.sizes,
    )
    service.frame = frames.shown
    functions = FunctionService(source.queries, source.functions, limits=limits, say=source.say)
    statements = SqlService(
        source.queries,
        hidden=hidden,
        limits=SqlLimits(
            seconds=admin.sql_timeout.total_seconds(),
            rows=limits.rows,
            size=limits.size,
            memory=_SQL_MEMORY,
        ),
    )
    streams = None if source.changes is None else ChangeStreams(service, source.changes, now)
    app = DataApplication(
        {
            "stores": service.answer,
            "frames": frames.answer,
            "queries": functions.answer,
            "openapi.json": _Describes(source, service).answer,
            "sql": statements.answer,
        },
        streams,
        requests_max=admin.max_requests,
        say=source.say if admin.log_queries else None,
        rows=RowStreams(service, now),
    )
    return tuple(
        Endpoint(
            path=path,
            group="query",
            scope=Scope.QUERY,
            app=app,
            streams=is_stream,
            more_s=admin.sql_timeout.total_seconds() if path == "/sql" else 0.0,
        )
        for path in ("/stores", "/frames", "/queries", "/sql", "/openapi.json")
    )


class _Describes:
    """Answers requests for the description of the API."""

    def __init__(self, source: DataSource, service: DataService) -> None:
        self._source = source
        self._service = service

    def answer(self, asked: Asked) -> Reply:
        if len(asked.path) != 1 or asked.method not in ("GET", "HEAD"):
            return refused(DataRefusal(404, "QUERY_PATH", "there is no such address"))
        try:
            service = self._service
            methods = {
                name: service.methods.of(name).values()
                for name in service.forms
                if service.methods.has(name)
            }
            document: dict[str, Any] = description(
                self._source.settings.application_id,
                version("mustela"),
                service.forms,
                self._source.functions.values(),
                methods,
            )
        except MustelaError as error:
            return refused(refusal_of(error))
        return Reply(body=msgspec.json.encode(document))
