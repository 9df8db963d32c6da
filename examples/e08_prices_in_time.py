"""Price each trade at what was valid when it happened, also if the price arrives after it.

    mustela broker start
    mustela topics create e08_prices_in_time:app
    mustela run e08_prices_in_time:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send prices - --value float --format json <<END
    {"key": "ACME", "timestamp": $((now - 100))000, "value": 10.5}
    {"key": "ACME", "timestamp": $((now - 50))000, "value": 11.5}
    {"key": "ACME", "timestamp": ${now}000, "value": 12.5}
    END
    mustela send trades - --value int --format json <<END
    {"key": "ACME", "timestamp": $((now - 60))000, "value": 2}
    {"key": "ACME", "timestamp": $((now - 40))000, "value": 2}
    {"key": "ACME", "timestamp": ${now}000, "value": 2}
    END
    mustela tail values --value float --from-beginning

The table keeps the prices of the last day, each with its time. A trade waits five seconds of
event time for prices that come late, and is then joined with the version that was valid at its
own timestamp. Read again from the start, the same topics give the same result.
"""

from __future__ import annotations

from datetime import timedelta

from mustela import App, Joined, Materialized, Stores, StreamsBuilder

app = App("prices-in-time")


def worth(pieces: int, price: float) -> float:
    return pieces * price


@app.topology
def build(builder: StreamsBuilder) -> None:
    a_day = Stores.persistent_versioned_key_value_store("prices", timedelta(days=1))
    kept = Materialized(supplier=a_day)
    prices = builder.table("prices", key=str, value=float, materialized=kept)
    trades = builder.stream("trades", key=str, value=int)
    waiting = Joined(grace=timedelta(seconds=5))
    trades.join(prices, worth, joined=waiting, name="valued").to("values", value=float)


if __name__ == "__main__":
    app.run()
