"""Rows that a broker would refuse are found before they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.clock import ManualClock
from mustela.connectors.kafka.admin import MissingTopicError
from mustela.connectors.kafka.errors import RefusedRow
from mustela.connectors.kafka.row_checks import RowChecks, RowLimits, TopicFacts, outline_of
from mustela.errors import EnvironmentFault, Origin
from mustela.spark.frames import FrameColumns
from tests.unit.runtime.fakes import FakeAdmin

NOW = 10_000_000
HOUR = 3_600_000


@dataclass
class Admin(FakeAdmin):
    """Topics with settings; counts how often it is asked for them."""

    settings: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    fault: EnvironmentFault | None = None
    asked_for: list[str] = field(default_factory=list[str])

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        if self.fault is not None:
            raise self.fault
        names = list(topics)
        self.asked_for += names
        return {name: self.settings.get(name, {}) for name in names}


def checks_of(admin: Admin, **limits: Any) -> RowChecks:
    return RowChecks(
        admin,  # pyright: ignore[reportArgumentType]
        ManualClock(NOW),
        RowLimits(**limits),
        partitions=lambda: (3, 2),
        origin=Origin("app.py", 7, "orders.to(choose)"),
    )


def rows(count: int = 3, topics: Any = "out", **columns: Any) -> FrameColumns:
    base: dict[str, Any] = {
        "topics": topics,
        "keys": [b"k"] * count,
        "values": [b"v"] * count,
        "timestamps": [NOW] * count,
        "headers": None,
        "partitions": None,
    }
    return FrameColumns(*{**base, **columns}.values())


def reasons(found: list[RefusedRow]) -> list[tuple[int, str]]:
    return [(row.row, row.reason) for row in found]


def test_good_rows_cost_one_question_for_each_topic() -> None:
    """And none of them is looked at alone."""
    admin = Admin({"out": 1, "x": 1})
    checks = checks_of(admin)
    for _ in range(3):
        assert checks.refused("tag", rows()) == []
        assert checks.refused("tag", rows(topics=["out", "x", "out"])) == []
    assert admin.asked_for == ["out", "x"]


def test_each_limit_of_a_topic_is_known() -> None:
    """The tag, the topic and the numbers stand in what is found."""
    settings = {
        "max.message.bytes": "200",
        "message.timestamp.after.max.ms": str(HOUR),
        "message.timestamp.before.max.ms": str(HOUR),
        "cleanup.policy": "compact,delete",
    }
    admin = Admin({"out": 1}, settings={"out": settings})
    large = rows(values=[b"v", b"v" * 150, None])
    late = rows(timestamps=[NOW + HOUR, NOW + HOUR + 1, NOW - HOUR - 1])
    keyless = rows(keys=[b"k", None, b""])
    found = [row for part in (large, late, keyless) for row in checks_of(admin).refused("t", part)]
    assert reasons(found) == [
        (1, "MSG_SIZE_TOO_LARGE"),
        (1, "INVALID_TIMESTAMP"),
        (2, "INVALID_TIMESTAMP"),
        (1, "INVALID_RECORD"),
    ]
    assert {(row.tag, row.topic) for row in found} == {("t", "out")}
    assert "max.message.bytes of the topic is 200" in found[0].text
    assert "3600001 ms ahead, 3600000 are allowed" in found[1].text


LIMITED = {
    "max.message.bytes": "100",
    "message.timestamp.after.max.ms": "5",
    "message.timestamp.before.max.ms": "5",
    "cleanup.policy": "compact",
}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, b"k", b"k" * 30]),
            st.sampled_from([None, b"v", b"v" * 20, b"v" * 40]),
            st.sampled_from([NOW - 6, NOW - 5, NOW, NOW + 5, NOW + 6]),
            st.sampled_from([(), (("h", b"x" * 25),)]),
            st.sampled_from(["out", "free"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_rows_are_like_says_whether_one_of_them_may_be_refused(parts: list[Any]) -> None:
    """A look at each row finds nothing where their outline shows nothing."""
    keys, values, times, headers, topics = map(list, zip(*parts, strict=True))
    columns = rows(len(parts), topics, keys=keys, values=values, timestamps=times, headers=headers)
    checks = checks_of(Admin({"out": 1, "free": 1}, settings={"out": LIMITED}))
    alone = [
        number
        for number, (key, value, time, own, topic) in enumerate(parts)
        if topic == "out"
        and (
            key is None
            or abs(time - NOW) > 5
            or len(key) + len(value or b"") + sum(len(n) + len(v) for n, v in own) + 68 > 100
        )
    ]
    assert [row for row, _ in reasons(checks.refused("t", columns))] == alone
    assert checks.suspicious(outline_of(columns)) or not alone


def test_headers_count() -> None:
    """They are part of the record."""
    admin = Admin({"out": 1}, settings={"out": {"max.message.bytes": "200"}})
    headers = [(), (("h", b"x" * 140),), (("h", None),)]
    assert reasons(checks_of(admin).refused("t", rows(headers=headers))) == [
        (1, "MSG_SIZE_TOO_LARGE")
    ]


def test_the_size_of_compressed_rows_is_not_known() -> None:
    """But what the client itself refuses is."""
    admin = Admin({"out": 1}, settings={"out": {"max.message.bytes": "200"}})
    checks = checks_of(admin, compressed=True, client_bytes=1000)
    assert checks.refused("t", rows(values=[b"v", b"v" * 900, b"v"])) == []
    found = checks.refused("t", rows(values=[b"v", b"v", b"v" * 1000]))
    assert reasons(found) == [(2, "MSG_SIZE_TOO_LARGE")]
    assert "the client sends 1000 at most" in found[0].text


def test_a_topic_with_the_brokers_own_time_takes_any_timestamp() -> None:
    """Nothing is wrong with a time that is replaced."""
    config = {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1"}
    admin = Admin({"out": 1}, settings={"out": config})
    assert checks_of(admin).refused("t", rows(timestamps=[0, NOW * 2, NOW])) == []


def test_older_brokers_have_one_limit_for_both_sides() -> None:
    """Which is read if there is no other."""
    facts = TopicFacts.of({"message.timestamp.difference.max.ms": "5", "max.message.bytes": "?"})
    assert (facts.ahead_ms, facts.behind_ms, facts.compacted) == (5, 5, False)
    assert facts.max_bytes == TopicFacts().max_bytes


def test_a_setting_that_was_changed_is_asked_for_before_a_row_is_refused() -> None:
    """A topic that takes more now takes the row."""
    admin = Admin({"out": 1}, settings={"out": {"max.message.bytes": "200"}})
    checks = checks_of(admin)
    assert len(checks.refused("t", rows(values=[b"v" * 150] * 3))) == 3
    admin.settings["out"]["max.message.bytes"] = "2000"
    assert checks.refused("t", rows(values=[b"v" * 150] * 3)) == []


def test_a_topic_that_does_not_exist_is_named() -> None:
    """With the line of the function that chose it."""
    checks = checks_of(Admin({"out": 1}))
    with pytest.raises(MissingTopicError) as caught:
        checks.refused("t", rows(topics=["out", "uot", "out"]))
    assert caught.value.fields["topic"] == "uot"
    assert caught.value.at is not None
    assert caught.value.at.code == "orders.to(choose)"


def test_rows_for_a_topic_that_does_not_exist_go_to_the_handler() -> None:
    """Where there is one; the rest is sent. It is looked for again."""
    admin = Admin({"out": 1})
    checks = checks_of(admin, refuses=False)
    part = rows(topics=["out", "uot", "out"])
    assert reasons(checks.refused("t", part)) == [(1, "UNKNOWN_TOPIC_OR_PART")]
    admin.partitions["uot"] = 1
    assert checks.refused("t", part) == []


def test_a_topic_that_does_not_exist_may_be_made() -> None:
    """With the partitions of the widest source."""
    admin = Admin({"out": 1})
    assert checks_of(admin, creates=True).refused("t", rows(topics=["out", "x", "y"])) == []
    made = [(spec.name, spec.partitions, spec.replication_factor) for spec in admin.created]
    assert made == [("x", 3, 2), ("y", 3, 2)]


def test_where_settings_cannot_be_read_the_broker_decides() -> None:
    """Only whether the topic exists is known."""
    checks = checks_of(Admin({"out": 1}, fault=EnvironmentFault("not authorized")))
    assert checks.refused("t", rows(keys=[None] * 3)) == []


def test_the_producers_properties_are_read() -> None:
    """By either of librdkafka's names for compression."""
    made = RowLimits.of({"message.max.bytes": "77"}, header="epoch", creates=True, refuses=False)
    assert made == RowLimits(client_bytes=77, header_bytes=5, creates=True, refuses=False)
    for name in ("type", "codec"):
        properties = {f"compression.{name}": "lz4"}
        assert RowLimits.of(properties, header="", creates=False, refuses=True).compressed
