"""Show orders live in a browser: a table of orders and payments, and a page that follows it.

    mustela broker start
    mustela topics create e28_order_desk:app
    uvicorn e28_order_desk:service

Open http://localhost:8000 and, in a second terminal, watch the page while you type:

    mustela send desk-orders 4711 '{"customer": "ann", "article": "tea", "total": 30}'
    mustela send desk-payments 4711 10 --value int
    mustela send desk-payments 4711 20 --value int

The page, ``e28_order_desk.html``, follows two stores. What it reads is ``GET
/stores/{store}/changes`` of the admin server: first the rows of the store, then what each committed
epoch changes. A browser's ``EventSource`` cannot send a token, so the service adds it, for these
two stores only. Whoever reaches the service sees them: put your own login before it.
"""

from __future__ import annotations

import secrets
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mustela import App, StreamsBuilder
from mustela.aggregates import Count, Sum

TOKEN = secrets.token_urlsafe(32)  # of this process; nobody else needs it

app = App("order-desk", {"admin.query_token": TOKEN})


@dataclass(frozen=True)
class Order:
    customer: str
    article: str
    total: int


@dataclass(frozen=True)
class DeskRow:
    customer: str
    article: str
    total: int
    paid: int
    status: str


def with_status(order: Order, paid: int | None) -> DeskRow:
    paid = paid or 0
    status = "open" if paid == 0 else "paid" if paid >= order.total else "part-paid"
    return DeskRow(order.customer, order.article, order.total, paid, status)


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.table("desk-orders", key=str, value=Order, store="desk-orders")
    payments = builder.stream("desk-payments", key=str, value=int)
    paid = payments.group_by_key().reduce(lambda total, amount: total + amount, store="paid")
    desk = orders.left_join(paid, with_status, store="desk")
    by_status = desk.group_by(lambda _number, row: (row.status, row), key=str, value=DeskRow)
    by_status.aggregate(orders=Count(), total=Sum("total"), store="by-status")


class Changes:
    """The changes of one store, asked for with the token that the page does not have."""

    def __init__(self, store: str) -> None:
        self.path = f"/stores/{store}/changes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [each for each in scope["headers"] if each[0] != b"authorization"]
        headers.append((b"authorization", f"Bearer {TOKEN}".encode()))
        where = {"path": self.path, "raw_path": self.path.encode(), "root_path": ""}
        await app.asgi({**scope, **where, "headers": headers}, receive, send)


async def page(_request: Request) -> FileResponse:
    return FileResponse(Path(__file__).with_suffix(".html"))


@asynccontextmanager
async def lifespan(_service: Starlette) -> AsyncIterator[None]:
    app.start()
    yield
    await to_thread(app.close)


service = Starlette(
    routes=[
        Route("/", page),
        Route("/changes/desk", Changes("desk"), methods=["GET"]),
        Route("/changes/by-status", Changes("by-status"), methods=["GET"]),
    ],
    lifespan=lifespan,
)
