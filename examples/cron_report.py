"""Say every morning at six, by the clock of Berlin, how much of each product was sold so far.

    mustela topics create sales && mustela topics create report
    mustela run cron_report:app

A schedule calls a function, which reads the store that other steps keep: all of its keys, in
whichever lane they are, as they were when the epoch of the tick began. What it returns is committed
with the tick, so that no morning is left out and none is reported twice, whatever dies when. After
a weekend without the application the last morning alone is made up for.
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
