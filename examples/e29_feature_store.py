r"""Keep features of customers: for a model that asks now, and for training as of then.

    mustela broker start
    mustela topics create e29_feature_store:app
    mustela run e29_feature_store:app --set admin.enabled=true

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send customer-purchases - --format json <<END
    {"key": "ann", "timestamp": $((now - 9000))000, "value": {"article": "tea", "amount": 4}}
    {"key": "ann", "timestamp": $((now - 5000))000, "value": {"article": "cup", "amount": 8}}
    {"key": "bob", "timestamp": ${now}000, "value": {"article": "pot", "amount": 30}}
    END
    mustela send labels - --format json <<END
    {"key": "ann", "timestamp": $((now - 7000))000, "value": {"returned": true}}
    {"key": "bob", "timestamp": ${now}000, "value": {"returned": false}}
    END
    mustela state get e29_feature_store:app features ann
    mustela state range e29_feature_store:app days
    mustela sql e29_feature_store:app 'select * from features order by mean desc'

A label says what came of a customer at some time. Its training row has the features as they were at
that time, not what is known today: ``features`` is a versioned table. A label waits ten minutes of
event time for purchases that come late. The rows of the first training are made of files, by this
same program (``pip install 'mustela[batch]'``), so that features mean there what they mean here:

    mustela batch e29_feature_store:app --flush --output rows \
        --input customer-purchases=purchases.parquet,key=customer,timestamp=at \
        --input labels=labels.parquet,key=customer,timestamp=at

A model's service asks ``GET /queries/vector?customer=ann`` of the admin server, or reads the store
for many customers at once: ``client.store("features", key=str, value=Features).get_many([...])``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import App, Joined, Materialized, Stores, StreamsBuilder, TimeWindows
from mustela.aggregates import Avg, Count, Latest
from mustela.stores import QueryRefusedError, Snapshot

DAY = timedelta(days=1)
WEEK_MS = 7 * 24 * 3_600_000

app = App("feature-store")


@dataclass(frozen=True)
class Purchase:
    article: str
    amount: float


@dataclass(frozen=True)
class Label:
    returned: bool


@dataclass(frozen=True)
class Features:
    purchases: int
    mean: float
    last: str


@dataclass(frozen=True)
class TrainingRow:
    returned: bool
    purchases: int
    mean: float
    last: str


@dataclass(frozen=True)
class Vector:
    purchases: int
    mean: float
    last: str
    of_a_week: int


def training_row(label: Label, seen: Features) -> TrainingRow:
    return TrainingRow(label.returned, seen.purchases, seen.mean, seen.last)


@app.topology
def build(builder: StreamsBuilder) -> None:
    purchases = builder.stream("customer-purchases", key=str, value=Purchase).group_by_key()

    # Every change is a version, also if several come in one epoch: so there is no caching.
    running = purchases.aggregate(
        purchases=Count(),
        mean=Avg("amount"),
        last=Latest("article"),
        value=Features,
        materialized=Materialized(store="running", caching=False),
    )
    versions = Stores.persistent_versioned_key_value_store("features", timedelta(days=90))
    features = running.to_stream().to_table(materialized=Materialized(supplier=versions))

    days = Materialized(store="days", retention=timedelta(days=30))
    purchases.windowed_by(TimeWindows(size=DAY, grace=DAY)).count(materialized=days)

    labels = builder.stream("labels", key=str, value=Label)
    waiting = Joined(grace=timedelta(minutes=10))
    rows = labels.join(features, training_row, joined=waiting, name="with-features")
    rows.to("training", key=str, value=TrainingRow)


@app.query("vector")
def vector(snapshot: Snapshot, customer: str) -> Vector:
    """What a model is given: the newest features, and the purchases of the week before them."""
    newest = snapshot.store("features").get(customer)
    if newest is None:
        msg = f"{customer!r} has bought nothing"
        raise QueryRefusedError(msg, status=404)
    known, now_ms = newest.value, newest.timestamp
    days = snapshot.store("days").fetch(customer, now_ms - WEEK_MS, now_ms)
    week = sum(count for _start, count in days)
    return Vector(known.purchases, known.mean, known.last, week)


if __name__ == "__main__":
    app.run()
