"""Kafka Streams' bytes, as its own classes wrote them: ``benchmarks.Vectors`` prints the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.groups import metadata_of
from mustela.connectors.kafka_streams.changelogs import (
    ChangelogFormatError,
    Suppressed,
    Unmatched,
    split_session,
    split_unmatched,
    split_window,
    suppressed,
)
from mustela.connectors.kafka_streams.commits import partition_time
from mustela.connectors.kafka_streams.topics import own_topics

VECTORS = json.loads((Path(__file__).parent / "kafka_streams.json").read_text())
ROWS = {name: bytes.fromhex(v) for name, v in VECTORS.items() if not name.startswith("commit")}
VERSION = (("v", b"\x03"),)
SENT = (("from", b"web"), ("none", None))


def test_the_key_of_a_window_is_split() -> None:
    """Record key, start, and the number that only duplicates have."""
    assert split_window(ROWS["window"]) == (b"ann", 60_000, 0)
    assert split_window(ROWS["window_third"]) == (b"ann", 60_000, 3)


def test_the_key_of_a_session_has_its_end_first() -> None:
    """Record key, start and end come out in the order of time."""
    assert split_session(ROWS["session"]) == (b"ann", 1_000, 8_000)


def test_a_record_without_a_partner_says_of_which_side_it_is() -> None:
    """Time, side and key."""
    assert split_unmatched(ROWS["left"]) == Unmatched(61_234, True, b"ann")
    assert split_unmatched(ROWS["right"]) == Unmatched(61_234, False, b"ann")


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("suppressed", Suppressed(120_000, 61_234, b"new", b"o", b"p", SENT)),
        ("suppressed_same", Suppressed(120_000, 61_234, b"new", b"o", b"o", SENT)),
        ("suppressed_first", Suppressed(120_000, 61_234, b"new", None, None, ())),
        ("suppressed_gone", Suppressed(120_000, 61_234, None, b"p", b"p", ())),
    ],
)
def test_what_a_suppression_holds_is_read(name: str, held: Suppressed) -> None:
    """Also where values are absent, or the old value is not written twice."""
    assert suppressed(ROWS[name], VERSION) == held


def test_a_row_of_an_older_version_is_refused() -> None:
    """The header of the record names the version of the row."""
    for headers in ((), (("v", b"\x02"),)):
        with pytest.raises(ChangelogFormatError) as caught:
            suppressed(ROWS["suppressed"], headers)
        assert "--map" in (caught.value.fix or "")


@given(st.sampled_from([n for n in ROWS if n.startswith("sup")]), st.integers(1, 200))
def test_no_cut_row_of_a_suppression_is_taken_for_a_whole_one(name: str, cut: int) -> None:
    """Any shorter row is refused by name, whatever is missing."""
    row = ROWS[name][:-cut] if cut < len(ROWS[name]) else b""
    with pytest.raises(ChangelogFormatError):
        suppressed(row, VERSION)


@given(st.binary(max_size=11))
def test_a_key_that_is_too_short_is_no_window(key: bytes) -> None:
    """It is refused by name."""
    for split in (split_window, split_session):
        with pytest.raises(ChangelogFormatError):
            split(key)


def test_the_time_of_a_partition_is_read_from_its_commit() -> None:
    """Of each version; whatever else somebody committed says nothing."""
    assert partition_time(VECTORS["commit"]) == 61_234
    assert partition_time(VECTORS["commit_more"]) == 61_234
    assert partition_time(VECTORS["commit_none"]) == -1
    assert partition_time("AQAAAAAAAO8y") == 61_234
    for other in (None, "", "hello", "AAAA", "CQAAAAAAAO8y"):
        assert partition_time(other) == -1


@given(st.binary(max_size=20))
def test_bytes_of_memory_after_the_metadata_of_a_commit_change_nothing(behind: bytes) -> None:
    """The client copies metadata without the zero byte at which it then stops to read."""

    class Found:
        @property
        def metadata(self) -> str:
            return (VECTORS["commit"].encode() + behind.split(b"\0")[0]).decode()

    assert partition_time(metadata_of(Found())) == 61_234


def test_topics_between_its_steps_are_known_by_their_names() -> None:
    """Repartition topics and those of foreign-key joins, but no topic of a longer id."""
    found = own_topics(
        "shop",
        [
            "shop-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
            "shop-named-subscription-response-topic",
            "shop-by-town-repartition",
            "shop-eu-by-town-repartition",
            "shop-orders-topic",
            "shop-a-b-changelog",
        ],
        ["shop-eu", "sho"],
    )
    assert found.changelogs == {"a-b": "shop-a-b-changelog"}
    assert len(found.between) == 3
    assert not any("eu" in topic for topic in found.between)
