"""The records of the workloads: made from a seed, the same on every machine."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator

Record = tuple[bytes | None, bytes]
TimedRecord = tuple[bytes | None, bytes, int]
"""Key, value, and the record's own time in milliseconds."""

DICTIONARY_WORDS = 5_000
COUNT_KEYS = 10_000
FIRST_TIMESTAMP_MS = 1_760_000_000_000
_DAY_MS = 86_400_000
_CLOSING_RECORDS = 200
_PAYMENT_BYTES = 1_024
_WORDS_PER_KB = 128
_WORDS_PER_LINE = 10
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")
_COUNTRIES = ("AT", "BE", "CH", "DE", "ES", "FR", "GB", "IT", "JP", "US")
_CHANNELS = ("web", "app", "pos", "phone")


def dictionary(seed: int, letters: tuple[int, int]) -> list[str]:
    """Five thousand different words whose lengths lie between two bounds, commonest first."""
    source = random.Random(f"dictionary-{seed}")
    words: dict[str, None] = {}
    while len(words) < DICTIONARY_WORDS:
        size = source.randint(*letters)
        words["".join(source.choices(_LETTERS, k=size))] = None
    return list(words)


def zipf_weights(size: int) -> list[float]:
    """Cumulative weights of a Zipf law with exponent 1 over `size` ranks."""
    return list(itertools.accumulate(1.0 / rank for rank in range(1, size + 1)))


def kilobyte_lines(count: int, seed: int, *, zipf: bool) -> Iterator[Record]:
    """Lines of 128 seven-letter words, each with a space behind it: 1,024 bytes."""
    words = dictionary(seed, (7, 7))
    weights = zipf_weights(len(words)) if zipf else None
    source = random.Random(f"lines-{seed}-{zipf}")
    for _ in range(count):
        chosen = source.choices(words, cum_weights=weights, k=_WORDS_PER_KB)
        yield None, (" ".join(chosen) + " ").encode()


def short_lines(count: int, seed: int) -> Iterator[Record]:
    """Lines of ten words of two to ten letters, Zipf distributed: about 69 bytes."""
    words = dictionary(seed, (2, 10))
    weights = zipf_weights(len(words))
    source = random.Random(f"short-lines-{seed}")
    for _ in range(count):
        chosen = source.choices(words, cum_weights=weights, k=_WORDS_PER_LINE)
        yield None, " ".join(chosen).encode()


def keyed_values(count: int, seed: int) -> Iterator[Record]:
    """Values of 64 bytes under ten thousand keys, uniform."""
    source = random.Random(f"keyed-{seed}")
    keys = [f"key-{number:05d}".encode() for number in range(COUNT_KEYS)]
    for number in range(count):
        yield keys[int(source.random() * COUNT_KEYS)], f"{number:064d}".encode()


def distinct_values(count: int, seed: int) -> Iterator[Record]:
    """One record for each of `count` keys of 16 bytes, the value 100 bytes: fills a store."""
    source = random.Random(f"distinct-{seed}")
    for number in range(count):
        yield f"key-{number:012d}".encode(), f"{source.getrandbits(400):0100x}".encode()


def documents(count: int, seed: int) -> Iterator[Record]:
    """Orders as JSON of 120 bytes or so under keys in no order; one in six changes an earlier one.

    What rows have in common is what rows of applications have: names, cities, states, dates.
    """
    source = random.Random(f"documents-{seed}")
    cities = [f"{name} {part}" for name in ("Rome", "Oslo", "Wien", "Kyoto") for part in range(250)]
    known: list[bytes] = []
    for _ in range(count):
        if known and source.random() < 1 / 6:
            key = known[source.randrange(len(known))]
        else:
            key = b"order-%012d" % source.randrange(10**12)
            known.append(key)
        order: dict[str, object] = {
            "customer": f"c-{source.randrange(10**7):08d}",
            "city": source.choice(cities),
            "status": source.choice(["open", "paid", "shipped", "closed", "returned"]),
            "total": source.randrange(10**6) / 100,
            "items": source.randrange(1, 30),
            "updated": 1_700_000_000_000 + source.randrange(10**10),
        }
        yield key, json.dumps(order).encode()


def payments(count: int, seed: int) -> Iterator[Record]:
    """JSON payments of exactly 1,024 bytes under keys of 16 bytes.

    The amount is uniform, so that a tenth of the payments lies below 100. Timestamps inside the
    value are one millisecond apart.
    """
    source = random.Random(f"payments-{seed}")
    for number in range(count):
        cents = source.randrange(100_000)
        record: dict[str, object] = {
            "id": number,
            "ts": FIRST_TIMESTAMP_MS + number,
            "amount": cents / 100,
            "currency": _CURRENCIES[source.randrange(len(_CURRENCIES))],
            "account": f"acc-{source.randrange(100_000):08d}",
            "merchant": f"mer-{source.randrange(5_000):06d}",
            "country": _COUNTRIES[source.randrange(len(_COUNTRIES))],
            "channel": _CHANNELS[source.randrange(len(_CHANNELS))],
            "status": "settled" if source.randrange(20) else "pending",
            "category": f"c{source.randrange(40):02d}",
            "device": f"dev-{source.randrange(50_000):06d}",
        }
        yield f"payment-{number:08d}".encode(), padded(record)


def padded(record: dict[str, object]) -> bytes:
    """A payment as JSON, filled up with its last field `pad` to 1,024 bytes."""
    bare = json.dumps({**record, "pad": ""}, separators=(",", ":"))
    fill = "x" * (_PAYMENT_BYTES - len(bare))
    return f'{bare[:-2]}{fill}"}}'.encode()


def customers(count: int, seed: int) -> Iterator[TimedRecord]:
    """A table of `count` rows of 100 bytes, all older than any record that is joined with it."""
    source = random.Random(f"customers-{seed}")
    for number in range(count):
        value = f"{source.getrandbits(400):0100x}".encode()
        yield _customer(number), value, FIRST_TIMESTAMP_MS - count + number


def purchases(count: int, seed: int, *, customers: int) -> Iterator[TimedRecord]:
    """Payments of 1 KB under the customer's key, skewed; two in a hundred of unknown customers."""
    source = random.Random(f"purchases-{seed}")
    known = len(range(customers))
    for number, (_, value) in enumerate(payments(count, seed)):
        skewed = int(known * source.random() ** 3)
        key = _customer(skewed if source.random() >= 0.02 else known + skewed)
        yield key, value, FIRST_TIMESTAMP_MS + number // 10


def _customer(number: int) -> bytes:
    return f"customer-{number:08d}".encode()


def customer_versions(count: int, seed: int) -> Iterator[TimedRecord]:
    """A table of half as many customers in rows of 100 bytes, each row once, then as many changes.

    The rows are older than all orders, the changes spread over their time.
    """
    source = random.Random(f"customer-versions-{seed}")
    known = customers_of(count)
    for number in range(count):
        value = f"{source.getrandbits(400):0100x}".encode()
        if number < known:
            yield _customer(number), value, FIRST_TIMESTAMP_MS - count + number
        else:
            changed = source.randrange(known)
            yield _customer(changed), value, FIRST_TIMESTAMP_MS + (number - known)


def customers_of(versions: int) -> int:
    """How many customers there are in so many versions of their rows."""
    return max(1, versions // 2)


def order_versions(count: int, seed: int, *, customers: int) -> Iterator[TimedRecord]:
    """Rows of 100 bytes, which begin with the customer's key; four in ten change an earlier order.

    Half of the changes name another customer, and two rows in a hundred one whom nobody knows. The
    change of such a row names a known one: of two rows in quick succession that both name nobody
    known, Kafka Streams may leave the result that was there before them.
    """
    source = random.Random(f"order-versions-{seed}")
    named: list[int] = []
    for number in range(count):
        if named and source.random() < 0.4:
            order = source.randrange(len(named))
        else:
            order = len(named)
            named.append(-1)
        stranger = named[order] >= customers
        if named[order] < 0 or stranger or source.random() < 0.5:
            unknown = not stranger and source.random() < 0.02
            named[order] = source.randrange(customers) + (customers if unknown else 0)
        row = _customer(named[order]) + f"{source.getrandbits(332):083x}".encode()
        yield f"order-{order:09d}".encode(), row, FIRST_TIMESTAMP_MS + number // 10


def closing(number: int) -> Iterator[TimedRecord]:
    """Records long after all others, a day later each time: they close the last windows.

    There are enough of them for each partition to have some.
    """
    after = FIRST_TIMESTAMP_MS + (1 + number) * _DAY_MS
    for place in range(_CLOSING_RECORDS):
        yield f"closing-{place:06d}".encode(), b"0", after


def orders(count: int, seed: int) -> Iterator[TimedRecord]:
    """Orders with a key of their own each, a hundred bytes, a millisecond apart and out of order
    by up to two seconds."""
    yield from _events(seed, "order", range(count))


def order_payments(count: int, seed: int) -> Iterator[TimedRecord]:
    """Payments of nine in ten of the orders, two seconds later and out of order by as much."""
    paid = (number for number in range(count * 10 // 9) if number % 10)
    yield from _events(seed, "payment", itertools.islice(paid, count), delay_ms=2_000)


def _events(
    seed: int, kind: str, numbers: Iterable[int], *, delay_ms: int = 0
) -> Iterator[TimedRecord]:
    source = random.Random(f"{kind}-{seed}")
    for number in numbers:
        time = FIRST_TIMESTAMP_MS + number // 10 + delay_ms + source.randrange(-2_000, 2_001)
        yield f"order-{number:09d}".encode(), f"{kind}-{number:093d}".encode(), time


def measurements(count: int, seed: int) -> Iterator[TimedRecord]:
    """Numbers under a hundred thousand keys, skewed; one in twenty is late, within five seconds.

    Ten thousand of them make a second, and what lies a minute later at the end closes all windows.
    """
    source = random.Random(f"measurements-{seed}")
    closing = max(_CLOSING_RECORDS, count // 1_000)
    for number in range(count - closing):
        key = f"sensor-{int(100_000 * source.random() ** 3):06d}".encode()
        late = source.randrange(4_500) if source.randrange(20) == 0 else 0
        yield key, f"{source.randrange(1_000_000)}".encode(), _MEASURED_FROM + number // 10 - late
    after = _MEASURED_FROM + count // 10 + 60_000
    for number in range(closing):
        yield f"closing-{number:06d}".encode(), b"0", after + number


_MEASURED_FROM = FIRST_TIMESTAMP_MS + 10_000
