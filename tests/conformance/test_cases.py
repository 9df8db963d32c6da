"""Cases of Kafka Streams' own tests, in every way: on one machine here, on Spark by area."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.bundles import Bundles
from tests.conformance.cases import ORDERINGS, Case, WindowKey, compare, load_cases
from tests.conformance.registry import TOPOLOGIES
from tests.conformance.script import Produced, Written
from tests.conformance.ways import driver_way

CASES = load_cases()
# Cases are told as Kafka Streams tells them: its own time, and each update of a table.
SETTINGS = {"event_time": "stream-time", "emit": "every"}

_PARAMS = [
    pytest.param(
        case,
        id=case.name,
        marks=[]
        if case.name in TOPOLOGIES
        else pytest.mark.xfail(reason="notyet: its operator is not there", raises=KeyError),
    )
    for case in CASES
]
every_case = pytest.mark.parametrize("case", _PARAMS)


@every_case
def test_a_case_of_kafka_streams(case: Case) -> None:
    """The same records give the same records, one record an epoch."""
    run = driver_way(settings=SETTINGS)
    compare(case, run(TOPOLOGIES[case.name](), [[record] for record in case.inputs]))


@every_case
def test_a_case_with_a_crash_after_every_record(case: Case) -> None:
    """Nothing is lost or told twice, and key groups and lanes change nothing."""
    groups = 1 if case.one_key_group else 8
    run = driver_way(
        settings=SETTINGS, crash_after_every_record=True, key_groups=groups, lanes=min(groups, 3)
    )
    compare(case, run(TOPOLOGIES[case.name](), [[record] for record in case.inputs]))


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.parametrize("restarts", [False, True], ids=["straight-on", "with-restarts"])
@every_case
def test_a_case_on_spark(case: Case, restarts: bool, spark_bundles: Bundles) -> None:
    """As in the driver, on Spark and a real broker; all cases of an area are one application."""
    # A Kafka client takes time 0 for now, so Mustela writes 1.
    expected = [row._replace(timestamp=row.timestamp or 1) for row in case.expected]
    timed = any(row.timestamp is not None for row in case.expected)
    told = replace(case, expected=tuple(expected)) if timed else case
    compare(told, spark_bundles.produced(case, SETTINGS, restarts=restarts))


def test_every_topology_has_its_case() -> None:
    """None is left over."""
    assert {case.name for case in CASES} >= set(TOPOLOGIES)


def row(key: Any, value: Any, timestamp: int = 0, after: int = 0) -> Written:
    return Written("out", key, value, timestamp, after)


def case_of(ordering: str, *expected: Written) -> Case:
    return Case("made up", (), expected, {"": ordering}, (0, 1), one_key_group=False)


@pytest.mark.parametrize("ordering", sorted(ORDERINGS))
def test_a_comparison_sees_a_missing_and_a_wrong_row(ordering: str) -> None:
    """However rows are compared: a test that cannot fail is none."""
    windows = "window" in ordering
    key: Callable[[str], Any] = (lambda k: WindowKey(k, 0, 5)) if windows else str
    right = [row(key("a"), "1"), row(key("b"), "2"), row(key("a"), "3", after=1)]
    case = case_of(ordering, *right)
    compare(case, Produced(list(right)))
    for wrong in (
        right[:2],
        [right[0], right[1], right[2]._replace(value="4")],
        [right[0], right[1]._replace(value="1"), right[2]],
    ):
        with pytest.raises(AssertionError):
            compare(case, Produced(wrong))
