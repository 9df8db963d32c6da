"""The benchmark's programs on Mustela, with Python lambdas throughout.

They live in a module of their own, so that Spark's workers import them by name.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mustela import StreamsBuilder

_SMALLEST_AMOUNT = 100
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


def latest(source: str, output: str) -> Build:
    """Keep the newest value of every key: the store that the restore workload fills."""

    def build(builder: StreamsBuilder) -> None:
        records = builder.stream(source, key=str, value=str)
        newest = records.group_by_key().reduce(lambda _before, now: now, store="latest")
        newest.to_stream().to(output, key=str, value=str)

    return build


PROGRAMS: dict[str, Callable[[str, str], Build]] = {
    "passthrough": passthrough,
    "json": json,
    "advanced": advanced,
    "word_count": word_count,
    "count": count,
    "latest": latest,
}
