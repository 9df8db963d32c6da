"""The benchmark's programs on Mustela, with Python lambdas throughout.

They live in a module of their own, so that Spark's workers import them by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta

import msgspec

from mustela import (
    JoinWindows,
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
)
from mustela.stores import Engine
from mustela.windows import BufferConfig

_SMALLEST_AMOUNT = 100
_JOINED_BYTES = 64
_CUSTOMER_BYTES = 17
_GRACE = timedelta(seconds=5)
_PAYMENT_WINDOWS = JoinWindows(
    before=timedelta(seconds=5), after=timedelta(seconds=5), grace=timedelta(seconds=10)
)
_BRANCHES = {"EUR": "eur", "USD": "usd"}

Build = Callable[[StreamsBuilder], None]


class Payment(msgspec.Struct):
    """The 1 KB JSON record of the stateless workloads, as it arrives."""

    id: int
    ts: int
    amount: float
    currency: str
    account: str
    merchant: str
    country: str
    channel: str
    status: str
    category: str
    device: str
    pad: str


class ConvertedPayment(msgspec.Struct, omit_defaults=True):
    """A payment with its euro amount and two fields renamed."""

    id: int
    ts: int
    amount: float
    currency: str
    account_id: str
    merchant_id: str
    country: str
    channel: str
    status: str
    category: str
    device: str
    pad: str
    amount_eur: float
    leg: int | None = None


def convert(payment: Payment, leg: int | None = None) -> ConvertedPayment:
    """Convert and rename; three decimals, as every peer rounds."""
    return ConvertedPayment(
        payment.id,
        payment.ts,
        payment.amount,
        payment.currency,
        payment.account,
        payment.merchant,
        payment.country,
        payment.channel,
        payment.status,
        payment.category,
        payment.device,
        payment.pad,
        round(payment.amount * 0.908, 3),
        leg,
    )


def with_leg(payment: ConvertedPayment, leg: int) -> ConvertedPayment:
    """The same payment as one leg of a transfer."""
    return msgspec.structs.replace(payment, leg=leg)


def passthrough(source: str, output: str) -> Build:
    """W1a: bytes in, the same bytes out."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=bytes, value=bytes).to(output)

    return build


def json(source: str, output: str) -> Build:
    """W1b: parse, filter, add a field, rename two, write."""

    def build(builder: StreamsBuilder) -> None:
        payments = builder.stream(source, key=str, value=Payment)
        large = payments.filter(lambda _key, payment: payment.amount >= _SMALLEST_AMOUNT)
        large.map_values(convert).to(output, key=str, value=ConvertedPayment)

    return build


def advanced(source: str, output: str) -> Build:
    """W1c: map, flat map, filter, a new key, and one of three topics for each record."""

    def build(builder: StreamsBuilder) -> None:
        payments = builder.stream(source, key=str, value=Payment)
        mapped = payments.map(lambda key, payment: (key, convert(payment)))
        legs = mapped.flat_map(
            lambda key, payment: [(key, with_leg(payment, 0)), (key, with_leg(payment, 1))]
        )
        kept = legs.filter(lambda _key, payment: (payment.id + (payment.leg or 0)) % 5 != 0)
        kept.select_key(lambda _key, payment: payment.account_id).to(
            lambda _key, payment, _context: f"{output}-{_BRANCHES.get(payment.currency, 'other')}",
            key=str,
            value=ConvertedPayment,
        )

    return build


def word_count(source: str, output: str) -> Build:
    """Count words."""

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=bytes, value=str)
        words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
        words.count(store="counts").to_stream().to(output, key=str, value=int)

    return build


def count(source: str, output: str) -> Build:
    """Count records by key."""

    def build(builder: StreamsBuilder) -> None:
        records = builder.stream(source, key=str, value=bytes)
        counts = records.group_by_key().count(store="counts")
        counts.to_stream().to(output, key=str, value=int)

    return build


def _engine() -> Engine | None:
    """How the store lies on disk; the benchmark of large states says it in the environment."""
    compression = os.environ.get("BENCH_COMPRESSION", "none")
    return Engine(compression="zstd") if compression == "zstd" else None


def latest(source: str, output: str) -> Build:
    """Keep the newest value of every key: the store that the restore workload fills."""

    def build(builder: StreamsBuilder) -> None:
        records = builder.stream(source, key=str, value=str)
        kept = Materialized(store="latest", engine=_engine())
        newest = records.group_by_key().reduce(lambda _before, now: now, materialized=kept)
        newest.to_stream().to(output, key=str, value=str)

    return build


class Order(msgspec.Struct):
    """A row of the table that the benchmark of queries asks."""

    city: str
    total: int
    note: str


def orders(source: str, _output: str) -> Build:
    """The table that is asked."""

    def build(builder: StreamsBuilder) -> None:
        builder.table(source, key=str, value=Order, store="orders")

    return build


def _with_row(payment: bytes, row: bytes | None) -> bytes:
    return payment[:_JOINED_BYTES] + b"|" + (b"nobody" if row is None else row)


def table_join(source: str, output: str) -> Build:
    """W3: each record with the row of its customer."""

    def build(builder: StreamsBuilder) -> None:
        rows = builder.table(f"{source}-table", key=str, value=bytes, store="customers")
        stream = builder.stream(source, key=str, value=bytes)
        stream.left_join(rows, _with_row, name="with-customer").to(output, key=str, value=bytes)

    return build


def global_join(source: str, output: str) -> Build:
    """W3 with a global table."""

    def build(builder: StreamsBuilder) -> None:
        rows = builder.global_table(f"{source}-table", key=str, value=bytes, store="customers")
        stream = builder.stream(source, key=str, value=bytes)
        joined = stream.left_join(
            rows, _with_row, foreign_key_with_key=lambda key, _payment: key, name="with-customer"
        )
        joined.to(output, key=str, value=bytes)

    return build


def foreign_key_join(source: str, output: str) -> Build:
    """W3 with two tables: each order with the row of the customer whom it names."""

    def build(builder: StreamsBuilder) -> None:
        customers = builder.table(f"{source}-customers", key=str, value=bytes, store="customers")
        orders = builder.table(source, key=str, value=bytes, store="orders")
        joined = orders.join(
            customers,
            lambda order, row: order + b"|" + row,
            foreign_key=lambda order: order[:_CUSTOMER_BYTES].decode(),
            value=bytes,
            name="with-customer",
        )
        joined.to_stream().to(output, key=str, value=bytes)

    return build


def _together(order: bytes | None, payment: bytes | None) -> bytes:
    return (order or b"-") + b"+" + (payment or b"-")


def stream_join(source: str, output: str) -> Build:
    """W4: orders with their payments."""

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=bytes)
        payments = builder.stream(f"{source}-payments", key=str, value=bytes)
        paid = orders.join(
            payments,
            lambda order, payment: order + b"+" + payment,
            windows=_PAYMENT_WINDOWS,
            store="paid",
        )
        paid.to(output, key=str, value=bytes)

    return build


def stream_left_join(source: str, output: str) -> Build:
    """W4 with the orders that nobody paid for in time."""

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=bytes)
        payments = builder.stream(f"{source}-payments", key=str, value=bytes)
        paid = orders.left_join(payments, _together, windows=_PAYMENT_WINDOWS, store="paid")
        paid.to(output, key=str, value=bytes)

    return build


def stream_outer_join(source: str, output: str) -> Build:
    """W4 with the orders and the payments that have no partner."""

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=bytes)
        payments = builder.stream(f"{source}-payments", key=str, value=bytes)
        paid = orders.outer_join(payments, _together, windows=_PAYMENT_WINDOWS, store="paid")
        paid.to(output, key=str, value=bytes)

    return build


class Summary(msgspec.Struct, array_like=True):
    """Count, sum, smallest and largest of a window."""

    count: int = 0
    total: int = 0
    low: int = 0
    high: int = 0


def add_to(_key: str, value: bytes, summary: Summary) -> Summary:
    """Put one number into a summary."""
    number = int(value)
    if summary.count == 0 or number < summary.low:
        summary.low = number
    if summary.count == 0 or number > summary.high:
        summary.high = number
    summary.count += 1
    summary.total += number
    return summary


def merge(_key: str, summary: Summary, other: Summary) -> Summary:
    """Put the numbers of another summary into a summary."""
    if other.count:
        summary.low = min(summary.low, other.low) if summary.count else other.low
        summary.high = max(summary.high, other.high) if summary.count else other.high
        summary.count += other.count
        summary.total += other.total
    return summary


def _write_closed(
    summaries: KTable[Windowed[str], Summary], name: Callable[[Windowed[str]], str], output: str
) -> None:
    """One row for each window when it is over, under a key that names it."""
    closed = summaries.suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded()), name="closed"
    )
    rows = closed.to_stream().map(
        lambda window, summary: (
            name(window),
            f"{summary.count},{summary.total},{summary.low},{summary.high}",
        )
    )
    rows.to(output, key=str, value=str)


def windows(source: str, output: str) -> Build:
    """W5: one row for each key and window, when the window is over."""
    return _time_windows(source, output, TimeWindows(size=timedelta(seconds=10), grace=_GRACE))


def hopping(source: str, output: str) -> Build:
    """W5 with five windows for each record."""
    size, advance = timedelta(seconds=10), timedelta(seconds=2)
    return _time_windows(source, output, TimeWindows(size=size, advance=advance, grace=_GRACE))


def _time_windows(source: str, output: str, spans: TimeWindows) -> Build:
    def build(builder: StreamsBuilder) -> None:
        numbers = builder.stream(source, key=str, value=bytes).group_by_key()
        summaries = numbers.windowed_by(spans).aggregate(
            Summary, add_to, value=Summary, store="summaries"
        )
        _write_closed(summaries, lambda window: f"{window.key}@{window.start}", output)

    return build


def sessions(source: str, output: str) -> Build:
    """W5 with sessions: one row for each, when nothing can be added to it any more."""

    def build(builder: StreamsBuilder) -> None:
        numbers = builder.stream(source, key=str, value=bytes).group_by_key()
        spans = SessionWindows(inactivity_gap=timedelta(seconds=5), grace=_GRACE)
        summaries = numbers.windowed_by(spans).aggregate(
            Summary, add_to, merge, value=Summary, store="summaries"
        )
        _write_closed(
            summaries, lambda session: f"{session.key}@{session.start}-{session.end}", output
        )

    return build


def rekeyed(source: str, output: str) -> Build:
    """Count by one key, then keep the newest count by another: two re-keyings."""

    def build(builder: StreamsBuilder) -> None:
        records = builder.stream(source, key=str, value=bytes)
        first = records.group_by(lambda key, _value: f"a{key}", key=str).count(store="first")
        again = first.to_stream().group_by(lambda key, _count: key[1:], key=str)
        second = again.reduce(lambda _before, now: now, value=int, store="second")
        second.to_stream().to(output, key=str, value=int)

    return build


PROGRAMS: dict[str, Callable[[str, str], Build]] = {
    "passthrough": passthrough,
    "json": json,
    "advanced": advanced,
    "word_count": word_count,
    "count": count,
    "latest": latest,
    "orders": orders,
    "table_join": table_join,
    "global_join": global_join,
    "foreign_key_join": foreign_key_join,
    "stream_join": stream_join,
    "stream_left_join": stream_left_join,
    "stream_outer_join": stream_outer_join,
    "windows": windows,
    "hopping": hopping,
    "sessions": sessions,
    "rekeyed": rekeyed,
}
