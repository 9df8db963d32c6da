"""Run an application inside a web service, which reports its state by HTTP.

    mustela broker start
    mustela topics create e24_web_service:app
    uvicorn e24_web_service:service

and in a second terminal:

    mustela send web-orders ann tea
    curl localhost:8000/news
    curl localhost:8000/admin/health/ready

The application starts with the service and stops with it: the epoch in work is finished and
committed. A listener is called after each epoch, in the application's thread, and must return at
once: here it keeps a line. ``app.asgi`` is the admin server; mounted like this it shows its
health to everyone, and the rest to those who have the token. FastAPI is built on Starlette:
``lifespan`` and ``mount`` are the same there.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from mustela import App, StreamsBuilder
from mustela.events import EpochDone, Event, Listener, StateChanged

app = App("web-service")


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("web-orders", key=str, value=str)
    orders.group_by_key().count(store="orders-of").to_stream().to("orders-of")


class News(Listener):
    """Keeps the last lines about the application."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=20)

    def on_event(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self.lines.append(event.state.value)
        elif isinstance(event, EpochDone):
            self.lines.append(f"epoch {event.epoch}: {event.records} records, lag {event.lag}")


news = News()
app.add_listener(news)


async def latest(_request: Request) -> JSONResponse:
    return JSONResponse(list(news.lines))


@asynccontextmanager
async def lifespan(_service: Starlette) -> AsyncIterator[None]:
    app.start()
    yield
    await to_thread(app.close)


service = Starlette(
    routes=[Route("/news", latest), Mount("/admin", app=app.asgi)], lifespan=lifespan
)
