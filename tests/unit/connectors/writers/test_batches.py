"""Record batches, byte by byte: read here by a reader of its own, and by librdkafka elsewhere."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.compression import UNASKED, codec_of
from mustela.connectors.kafka.writers import batches as batches_module
from mustela.connectors.kafka.writers.batches import (
    CODECS,
    Rows,
    cut,
    has_codec,
)
from mustela.connectors.kafka.writers.records import varint
from mustela.plan.ticket import Ticket
from tests.unit.connectors.writers.decoding import Row, decode

TICKET = Ticket("id", 7_000, 12, by_writing=True)
DATA = st.none() | st.binary(max_size=50)
ROWS = st.lists(
    st.tuples(
        DATA,
        DATA,
        st.integers(0, 2**45),
        st.lists(st.tuples(st.text(max_size=9), DATA), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=60,
)


@given(ROWS, st.integers(1, 3_000), st.sampled_from(sorted(CODECS)))
def test_a_batch_holds_its_rows(rows: list[Row], batch_bytes: int, codec: str) -> None:
    """Each row once, in order, whatever the batches; the head says how many and of whom."""
    keys, values, stamps, headers = (list(column) for column in zip(*rows, strict=True))
    found: list[Row] = []
    for batch in cut(Rows(keys, values, stamps, headers), batch_bytes):
        head, mine = decode(*batch.encode(TICKET, len(found), codec))
        assert head["attributes"] & ~7 == 0x10
        assert (head["id"], head["epoch"], head["sequence"]) == (7_000, 12, len(found))
        assert head["count"] == head["last"] + 1 == len(batch) == len(mine)
        assert head["first time"] == mine[0][2]
        assert head["last time"] == max(row[2] for row in mine)
        found += mine
    assert found == rows


@given(st.lists(st.tuples(DATA, DATA), min_size=1, max_size=60), st.integers(1, 3_000))
def test_rows_of_one_time_have_the_same_bytes_as_if_each_had_its_own(
    pairs: list[tuple[bytes | None, bytes | None]], batch_bytes: int
) -> None:
    """The quick way differs in nothing."""
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    quick = cut(Rows(keys, values, 5), batch_bytes)
    slow = cut(Rows(keys, values, [5] * len(keys)), batch_bytes)
    assert [one.encode(TICKET, 3) for one in quick] == [one.encode(TICKET, 3) for one in slow]


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_no_batch_is_larger_than_it_may_be(count: int, size: int, factor: int) -> None:
    """But one of a single row."""
    limit = 61 + factor * (size + 16)
    batches = cut(Rows([None] * count, [bytes(size)] * count, 0), limit)
    encoded = [batch.encode(TICKET, 0) for batch in batches]
    assert all(
        sum(map(len, parts)) <= limit or len(batch) == 1
        for batch, parts in zip(batches, encoded, strict=True)
    )
    assert [len(batch) for batch in batches[:-1]] == [factor] * (len(batches) - 1)


@given(
    st.lists(st.tuples(DATA, DATA), min_size=1, max_size=20),
    st.sampled_from([None, 1, 2]),
    st.integers(61, 2_000),
)
def test_rows_that_fit_at_a_glance_are_cut_as_if_each_was_looked_at(
    pairs: list[tuple[bytes | None, bytes | None]], kinds: int | None, batch_bytes: int
) -> None:
    """The quick look finds nothing that does not fit."""
    some = [((f"name{number}", b"v" * number * 30),) for number in range(kinds or 0)]
    headers = None if kinds is None else [some[at % kinds] for at in range(len(pairs))]
    rows = Rows([key for key, _ in pairs], [value for _, value in pairs], 0, headers)
    whole = cut(rows, batch_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_module, "_fits", lambda *_: False)
        assert cut(rows, batch_bytes) == whole


def test_many_rows_and_large_ones_are_numbered_beyond_the_table() -> None:
    """Lengths and places are looked up as far as a table goes, and encoded behind it."""
    values: list[bytes | None] = [*[b"v"] * 20_000, bytes(20_000)]
    keys: list[bytes | None] = [*[None] * 20_000, bytes(17_000)]
    (batch,) = cut(Rows(keys, values, 0), 1 << 30)
    _, rows = decode(*batch.encode(TICKET, 0))
    assert [(row[0], row[1]) for row in rows] == list(zip(keys, values, strict=True))


def test_halves_hold_what_the_whole_held() -> None:
    """A batch that a broker finds too large is sent in two."""
    keys = [b"%d" % number for number in range(5)]
    (batch,) = cut(Rows(keys, keys, 9), 10_000)
    halves = batch.halves()
    assert [(half.start, half.stop) for half in halves] == [(0, 2), (2, 5)]
    assert [row[0] for half in halves for row in decode(*half.encode(TICKET, 0))[1]] == keys


def test_the_bytes_of_a_batch_are_those_of_librdkafka() -> None:
    """As a broker of Kafka 4.1.2 had them in its log, which gives the leader's epoch itself."""
    rows = Rows([b"k", None], [b"value", b""], [1_000, 1_002], [(("h", b"1"),), ()])
    (batch,) = cut(rows, 1_000)
    found = b"".join(batch.encode(Ticket("id", 0, 0, by_writing=True), 0))
    assert found[:12].hex() == "0000000000000000" + "00000049"
    assert found[12:16].hex() == "ffffffff"
    assert found[16:].hex() == (
        "02" + "1f87af86" + "0010" + "00000001" + "00000000000003e8" + "00000000000003ea"
        "0000000000000000" + "0000" + "00000000" + "00000002"
        "20000000026b0a76616c75650202680231" + "0c000402010000"
    )


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-65, "8101"), (300, "d804")],
)
def test_numbers_have_their_sign_in_the_last_bit(number: int, expected: str) -> None:
    """As in Kafka's examples."""
    assert varint(number).hex() == expected


def test_a_batch_is_compressed_only_where_that_makes_it_smaller() -> None:
    """So no topic refuses one for its size that would have taken its rows."""
    noise, much = random.Random(1).randbytes(50_000), b"payment " * 6_000
    for codec, number, least in (
        ("gzip", 1, 256),
        ("lz4", 3, 256),
        ("zstd", 4, 256),
        (UNASKED, 3, 32_768),
    ):
        for value, expected in (
            (noise, 0),
            (much, number),
            (much[: least - 20], 0),
            (much[:least], number),
        ):
            (batch,) = cut(Rows([None], [value], 0), 100_000)
            head, rows = batch.encode(TICKET, 0, codec)
            assert (head[22] & 7, len(rows) < len(value)) == (expected, bool(expected))


def test_unasked_a_batch_is_compressed_only_where_it_shrinks_much() -> None:
    """Words without order become three quarters, which pays for nobody."""
    words = bytes(random.Random(1).choices(b"abcdefghijklmnopqrstuvwxyz", k=60_000))
    rows = [
        b'{"account": "acc-00011207", "currency": "GBP", "pad": "%b"}' % words[at : at + 150]
        for at in range(0, 60_000, 150)
    ]
    (batch,) = cut(Rows([None] * len(rows), rows, 0), 200_000)
    asked, unasked = (batch.encode(TICKET, 0, codec) for codec in ("lz4", UNASKED))
    assert (asked[0][22] & 7, unasked[0][22] & 7) == (3, 0)
    assert 0.5 * len(unasked[1]) < len(asked[1]) < 0.95 * len(unasked[1])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, UNASKED),
        ({"compression.type": "none"}, "none"),
        ({"compression.type": "zstd"}, "zstd"),
        ({"compression.codec": "gzip"}, "gzip"),
    ],
)
def test_the_codec_is_that_of_the_client(given: dict[str, str], expected: str) -> None:
    """By either of librdkafka's names for it."""
    assert codec_of(given) == expected


def test_lz4_has_blocks_that_javas_clients_read() -> None:
    """Its frame's flags: version 1, blocks for themselves; at most 64 KB each."""
    packed = CODECS["lz4"].pack(b"abc" * 100_000)
    assert packed[:4].hex() == "04224d18"
    assert packed[4] & 0b1110_0000 == 0b0110_0000
    assert packed[5] >> 4 == 4


def test_a_codec_without_its_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application starts without it, and sends row by row then."""
    assert [name for name in (*CODECS, "snappy") if has_codec(name)] == [*CODECS]
    monkeypatch.setattr(batches_module, "find_spec", lambda _name: None)
    assert not has_codec("zstd")
