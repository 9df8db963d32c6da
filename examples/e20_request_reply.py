"""Ask another program by topic: a request goes out, and the record waits for the reply.

    mustela broker start
    mustela topics create e20_request_reply:app
    mustela run e20_request_reply:app

and in a second terminal, as the other program:

    mustela send unpriced o-1 tea
    mustela tail price-requests --from-beginning -n 1
    mustela send price-replies 3 -H correlation-id=ID
    mustela tail priced --from-beginning

ID is the header that ``tail`` shows. The request and the record that waits are committed
together, so no request is sent twice and none is lost. An order without a reply in half a minute
goes on without a price.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import App, Record, StreamsBuilder
from mustela.calls import RequestReply

app = App("request-reply")


@dataclass(frozen=True)
class Priced:
    article: str
    price: str | None


def without_price(record: Record[str, str], _error: Exception) -> Priced:
    return Priced(record.value, None)


asking = RequestReply(
    topic="price-requests", timeout=timedelta(seconds=30), on_timeout=without_price
)


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("unpriced", key=str, value=str)
    replies = builder.stream("price-replies", key=str, value=str)
    priced = orders.request_reply(replies, Priced, asking, name="ask")
    priced.to("priced", key=str, value=Priced)


if __name__ == "__main__":
    app.run()
