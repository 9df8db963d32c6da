"""Orders get the credit rating of their customer from an HTTP service.

    mustela broker start
    mustela topics create e18_enrich_over_http:app
    RATINGS_URL=http://localhost:8080 mustela run e18_enrich_over_http:app

and in a second terminal:

    mustela send unrated-orders c-1 '{"total": 30}'
    mustela tail rated-orders --from-beginning

Without a service the order comes out without a rating. To have one that answers:

    mkdir ratings && echo '{"rating": "A"}' > ratings/c-1 && python3 -m http.server 8080

The service may be slow, fail or hang: an epoch does not wait for it. An order whose answer is not
there in time is parked and goes on in a later epoch, after the earlier orders of its customer and
before the later ones. A call is tried three times; five failures in a row leave the service alone
for ten seconds; an order that gets no answer goes on without a rating. Each order comes out exactly
once, even after a crash. A crash may repeat its call, with the same idempotency key.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import timedelta
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mustela import App, Record, StreamsBuilder
from mustela.calls import AsyncCall, AsyncOptions, CallFailedError, CircuitBreaker, Retry

URL = os.environ.get("RATINGS_URL", "http://localhost:8080")

app = App("enrich-over-http")


@dataclass(frozen=True)
class Order:
    total: int


@dataclass(frozen=True)
class RatedOrder:
    total: int
    rating: str | None


def rate(customer: str, order: Order, call: AsyncCall) -> RatedOrder:
    """Ask the service; a plain function runs in a thread, so any HTTP client will do."""
    headers = {"Idempotency-Key": call.idempotency_key}
    request = Request(f"{URL}/ratings/{customer}", headers=headers)
    try:
        with urlopen(request, timeout=2) as answer:
            return RatedOrder(order.total, json.load(answer)["rating"])
    except HTTPError as error:
        error.close()  # it is an answer too
        raise


def unrated(record: Record[str, Order], _error: CallFailedError) -> RatedOrder:
    """Let an order go on that got no answer."""
    return RatedOrder(record.value.total, None)


options = AsyncOptions(
    timeout=timedelta(seconds=2),
    retry=Retry(attempts=3, initial=timedelta(milliseconds=50)),
    circuit_breaker=CircuitBreaker(failures=5, open_for=timedelta(seconds=10)),
    on_failure=unrated,
)


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("unrated-orders", key=str, value=Order)
    rated = orders.map_values_async_with_key(rate, options, value=RatedOrder, name="rate")
    rated.to("rated-orders", key=str, value=RatedOrder)


if __name__ == "__main__":
    app.run()
