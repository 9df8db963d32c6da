"""The ASGI application: the endpoints behind their guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mustela.admin.endpoints import Endpoint
from mustela.admin.guard import ASGI, IS_PAGE, Guard, Policy
from mustela.runtime.status.watched import Watched

__all__ = ["application"]


def application(watched: Watched, known: Iterable[Endpoint], policy: Policy) -> ASGI:
    """Return the ASGI application for an application.

    Args:
        watched: The application.
        known: The endpoints.
        policy: The access rules.
    """
    # Starlette is loaded only if a server is wanted.
    from starlette.applications import Starlette
    from starlette.routing import Route

    switched_on = [each for each in known if each.group not in watched.settings.admin.off]
    routes = [
        Route(each.path, _answering(watched, each, policy), methods=[each.method])
        for each in switched_on
        if each.app is None
    ]
    made = Starlette(routes=routes)
    made.router.redirect_slashes = False  # a path is the one that is listed, or none
    return Guard(made, switched_on, policy)


def _answering(
    watched: Watched, endpoint: Endpoint, policy: Policy
) -> Callable[[Any], Awaitable[Any]]:
    from anyio import CapacityLimiter
    from anyio.to_thread import run_sync
    from starlette.requests import Request
    from starlette.responses import Response

    limiter = CapacityLimiter(policy.requests_max)

    async def answer(request: Request) -> Response:
        query = dict(request.query_params)
        if request.scope.get("state", {}).get(IS_PAGE):
            query["format"] = "html"
        # A thread that takes too long is abandoned, but counts until it ends.
        made = await run_sync(
            lambda: endpoint.respond(watched, query), abandon_on_cancel=True, limiter=limiter
        )
        return Response(made.body, made.status, media_type=made.kind)

    return answer
