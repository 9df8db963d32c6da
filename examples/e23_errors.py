"""Try again what may pass, replace what can be mended, and put aside what keeps failing.

    mustela broker start
    mustela topics create e23_errors:app
    mustela run e23_errors:app

and in a second terminal:

    mustela send order-lines o-1 '{"article": "tea", "pieces": "2"}'
    mustela send order-lines o-2 '{"article": "tea", "pieces": "two"}'
    mustela send order-lines o-3 '{"article": "tea", "pieces": "many"}'
    mustela send order-lines o-4 'not even JSON'
    mustela tail pieces --value int --from-beginning
    mustela dlq list errors

The application does not stop for a bad record. Each step says what becomes of the records that it
cannot handle; for the rest there are the handlers of the application. Dead letters have the bytes
as they were read, and say where and why; when the program is mended, ``mustela dlq replay
errors`` sends them back. With ``WEBHOOK=http://localhost:1`` in its environment the application
tells a service that is not there: it tries five times, and then puts the order aside. (For a slow
service see `e19_parking_lot`.)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from urllib.request import urlopen

from mustela import App, Record, StreamsBuilder
from mustela.handlers import DEAD_LETTER, ErrorAnswer, ErrorContext, Retry

WEBHOOK = os.environ.get("WEBHOOK", "")
NUMBERS = {"one": 1, "two": 2, "three": 3}

app = App(
    "errors",
    deserialization_handler="dead_letter",
    processing_handler="dead_letter",
)


@dataclass(frozen=True)
class Order:
    article: str
    pieces: str


def pieces(order: Order) -> int:
    return int(order.pieces)


def spelt_out(
    _error: Exception, record: Record[str, Order], _context: ErrorContext
) -> Record[str, int] | ErrorAnswer:
    """Replace a number that is spelt out; put everything else aside."""
    known = NUMBERS.get(record.value.pieces)
    return DEAD_LETTER if known is None else record.with_value(known)


def notify(id: str, count: int) -> None:
    """Tell a service, if there is one; it may be away for a moment."""
    if WEBHOOK:
        urlopen(f"{WEBHOOK}/{id}", data=str(count).encode(), timeout=1).close()


patient = Retry(
    attempts=5,
    initial=timedelta(milliseconds=50),
    on=(OSError,),
    then="dead_letter",
)


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("order-lines", key=str, value=Order)
    counts = orders.map_values(pieces, value=int, name="pieces", on_error=spelt_out)
    counts.peek(notify, name="notify", on_error=patient).to("pieces")


if __name__ == "__main__":
    app.run()
