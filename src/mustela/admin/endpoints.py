"""The endpoints: their paths, access rules and handlers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mustela.admin import health, views
from mustela.admin.access import Scope
from mustela.admin.live import live
from mustela.admin.pages import ASSETS, asset
from mustela.errors import MustelaError
from mustela.runtime.status.watched import Watched
from mustela.topology.mermaid import mermaid

__all__ = ["JSON", "Answer", "Endpoint", "endpoints", "json_answer", "probe_endpoints"]

JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """A response.

    Attributes:
        status: The HTTP status.
        body: The body.
        kind: Its media type.
    """

    status: int
    body: bytes
    kind: str = JSON


Query = Mapping[str, str]
Respond = Callable[[Watched, Query], Answer]


def _never(_path: str, _accept: str) -> bool:
    return False


def _no_answer(_watched: Watched, _query: Query) -> Answer:
    return Answer(404, b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One path, or all paths below it.

    Attributes:
        path: The path.
        group: The group by which it is enabled; one of `ENDPOINT_GROUPS`.
        respond: Builds the response, in a separate thread.
        scope: The scope that a token needs, also on loopback; `Scope.NOBODY` if no token is needed
            there.
        method: ``GET``, which includes ``HEAD``, or ``POST``.
        is_static: The answer is the same for every application, so no token is needed.
        has_page: Browsers that ask for HTML get a page, which is static.
        app: An ASGI application that answers by itself; the paths below are its own too.
        streams: Which of those, by path and Accept header, it answers in its own time.
        more_s: Seconds that it may take in addition to those of the policy.
    """

    path: str
    group: str
    respond: Respond = _no_answer
    scope: Scope = Scope.NOBODY
    method: str = "GET"
    is_static: bool = False
    has_page: bool = False
    app: Callable[..., Awaitable[None]] | None = None
    streams: Callable[[str, str], bool] = _never
    more_s: float = 0.0


def json_answer(value: Mapping[str, Any], status: int = 200) -> Answer:
    """Return a document as a response."""
    return Answer(status, json.dumps(value, default=str, ensure_ascii=False).encode("utf-8"))


def _live(watched: Watched, _query: Query) -> Answer:
    found = health.liveness(watched)
    return json_answer(found.facts, 200 if found.is_good else 503)


def _ready(watched: Watched, _query: Query) -> Answer:
    found = health.readiness(watched)
    return json_answer(found.facts, 200 if found.is_good else 503)


def _shows(view: Callable[[Watched], Mapping[str, Any]]) -> Respond:
    return lambda watched, _query: json_answer(view(watched))


def _topology(watched: Watched, query: Query) -> Answer:
    form = query.get("format", "json")
    if form == "json":
        return json_answer(views.topology(watched))
    if form == "text":
        return Answer(200, watched.topology().describe().encode(), _TEXT)
    if form == "mermaid":
        return Answer(200, mermaid(watched.topology()).encode(), _TEXT)
    if form == "html":
        return Answer(200, asset("page.html"), ASSETS["page.html"])
    return _wrong("format is json, text, mermaid or html")


def _asset(name: str) -> Respond:
    return lambda _watched, _query: Answer(200, asset(name), ASSETS[name])


def _threads(watched: Watched, query: Query) -> Answer:
    stacks = query.get("stacks", "true")
    if stacks not in ("true", "false"):
        return _wrong("stacks is true or false")
    return json_answer(views.threads(watched, stacks=stacks == "true"))


def _wrong(what: str) -> Answer:
    return json_answer({"error": what}, 400)


def _operates(act: Callable[[Watched, Query], None], done: str) -> Respond:
    def respond(watched: Watched, query: Query) -> Answer:
        try:
            act(watched, query)
        except MustelaError as error:
            return json_answer({"error": error.what, "code": error.code, "fix": error.fix}, 409)
        return json_answer({"asked": done, "state": watched.board.life.state}, 202)

    return respond


def endpoints(metrics: Respond) -> tuple[Endpoint, ...]:
    """Return all endpoints.

    Args:
        metrics: The handler of ``/metrics``.
    """
    return (
        Endpoint(path="/health/live", group="health", respond=_live),
        Endpoint(path="/health/ready", group="health", respond=_ready),
        Endpoint(path="/info", group="info", respond=_shows(views.info)),
        Endpoint(path="/config", group="config", respond=_shows(views.config), scope=Scope.READ),
        Endpoint(path="/topology", group="topology", respond=_topology, has_page=True),
        Endpoint(path="/topology/live", group="topology", respond=_shows(live)),
        *(
            Endpoint(
                path=f"/topology/{name}", group="topology", respond=_asset(name), is_static=True
            )
            for name in ASSETS
            if name != "page.html"
        ),
        Endpoint(path="/state", group="state", respond=_shows(views.state)),
        Endpoint(path="/ha", group="state", respond=_shows(_ha)),
        Endpoint(path="/offsets", group="state", respond=_shows(views.offsets)),
        Endpoint(path="/watermarks", group="state", respond=_shows(views.watermarks)),
        Endpoint(path="/metrics", group="metrics", respond=metrics),
        Endpoint(path="/debug/threads", group="debug", respond=_threads, scope=Scope.QUERY),
        Endpoint(path="/debug/barriers", group="debug", respond=_shows(views.barriers)),
        *(
            Endpoint(
                path=f"/{name}",
                group="operate",
                respond=_operates(act, name),
                scope=Scope.OPERATE,
                method="POST",
            )
            for name, act in (
                ("pause", _pause),
                ("resume", _resume),
                ("shutdown", _stop),
                ("ha/switch", _switch),
                ("ha/promote", _promote),
            )
        ),
    )


def _ha(watched: Watched) -> dict[str, Any]:
    """Return whether this instance runs or waits, and the standbys that it hears of."""
    return {
        "application_id": watched.settings.application_id,
        "state": watched.board.life.state,
        "standbys": [
            {
                "host": one.host,
                "pid": one.pid,
                "ready": one.ready,
                "epoch": one.epoch if one.epoch >= 0 else None,
                "memory_bytes": one.memory_bytes,
            }
            for one in watched.standbys()
        ],
    }


def _switch(watched: Watched, query: Query) -> None:
    watched.switch(query.get("to", ""), query.get("force") == "true")


def _promote(watched: Watched, _query: Query) -> None:
    watched.promote()


def _pause(watched: Watched, _query: Query) -> None:
    watched.pause()


def _resume(watched: Watched, _query: Query) -> None:
    watched.resume()


def _stop(watched: Watched, _query: Query) -> None:
    watched.stop()


def probe_endpoints() -> tuple[Endpoint, ...]:
    """Return the endpoints of the probe port, which answer only yes or no."""
    probes = (("/health/live", health.liveness), ("/health/ready", health.readiness))
    return tuple(
        Endpoint(path=path, group="health", respond=_terse(probe)) for path, probe in probes
    )


def _terse(probe: Callable[[Watched], health.Health]) -> Respond:
    def respond(watched: Watched, _query: Query) -> Answer:
        found = probe(watched)
        return json_answer({"status": found.facts["status"]}, 200 if found.is_good else 503)

    return respond
