"""Add up sales per shop and hour, and emit each hour once, when it is over: windows, suppression.

    mustela broker start
    mustela topics create e03_sales_per_hour:app
    mustela run e03_sales_per_hour:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send shop-sales - --format json <<END
    {"key": "ulm", "timestamp": $((now - 9000))000, "value": {"article": "tea", "amount": 3.5}}
    {"key": "ulm", "timestamp": $((now - 8990))000, "value": {"article": "cup", "amount": 8}}
    {"key": "bonn", "timestamp": ${now}000, "value": {"article": "tea", "amount": 2}}
    END
    mustela tail hours --from-beginning

Aggregates are declared by name, and can be combined before records travel to the lane of their
shop, so a shop that sells most of everything costs no more than the others. A sale may be ten
minutes late; it is late by the sales of all shops. ``suppress`` holds an hour back until none can
come any more; ``to_stream(flat=True)`` makes rows with plain keys, for readers that know nothing
of windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import App, StreamsBuilder, Suppressed, TimeWindows
from mustela.aggregates import Count, CountDistinct, Max, Sum
from mustela.windows import BufferConfig

HOUR = TimeWindows(size=timedelta(hours=1), grace=timedelta(minutes=10))

app = App("sales-per-hour")


@dataclass(frozen=True)
class Sale:
    article: str
    amount: float


@app.topology
def build(builder: StreamsBuilder) -> None:
    sales = builder.stream("shop-sales", key=str, value=Sale)
    hours = (
        sales.group_by_key()
        .windowed_by(HOUR)
        .aggregate(
            sales=Count(),
            total=Sum("amount"),
            largest=Max("amount"),
            articles=CountDistinct("article"),
            store="hours",
        )
    )
    over = Suppressed.until_window_closes(BufferConfig.unbounded(), name="over")
    hours.suppress(over).to_stream(flat=True).to("hours")


if __name__ == "__main__":
    app.run()
