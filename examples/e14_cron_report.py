"""Report every morning at six, Berlin time, how much of each product has been sold so far.

    mustela broker start
    mustela topics create e14_cron_report:app
    mustela run e14_cron_report:app

and in a second terminal:

    mustela send sales --value int tea 3
    mustela tail report --from-beginning

A schedule calls a function, which reads the store that other steps keep: all of its keys, in all
lanes, as they were when the epoch of the tick began. What it returns is committed with the tick,
so no morning is left out and none is reported twice, whatever crashes. After a weekend without
the application only the last morning is made up for. (For a report every minute: ``cron="* * * *
*"``.)
"""

from __future__ import annotations

from collections.abc import Iterator

from mustela import App, StreamsBuilder
from mustela.processors import Tick
from mustela.stores import ValueAndTimestamp

TOP = 3

app = App("cron-report")


def report(tick: Tick) -> Iterator[tuple[str, str]]:
    """Return the products that were sold most, and the sum of all."""
    sold: list[tuple[str, ValueAndTimestamp[int]]] = list(tick.store("sold").all())
    day = f"{tick.time:%Y-%m-%d}"
    best = sorted(sold, key=lambda row: (-row[1].value, row[0]))[:TOP]
    for place, (product, pieces) in enumerate(best, start=1):
        yield day, f"{place}. {product}: {pieces.value}"
    yield day, f"in all: {sum(pieces.value for _, pieces in sold)}"


@app.topology
def build(builder: StreamsBuilder) -> None:
    sales = builder.stream("sales", key=str, value=int)
    sales.group_by_key().reduce(int.__add__, store="sold", associative=True)
    mornings = builder.scheduled(
        "morning",
        report,
        cron="0 6 * * *",
        time_zone="Europe/Berlin",
        catch_up="last",
        key=str,
        value=str,
        stores=("sold",),
    )
    mornings.to("report")


if __name__ == "__main__":
    app.run()
