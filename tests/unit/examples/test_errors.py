"""The example of records that fail."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from urllib.error import URLError

import pytest

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e23_errors")


def feed(driver: TopologyTestDriver) -> None:
    orders = driver.create_input_topic("order-lines", key=str, value=bytes)
    for key, text in [
        ("o-1", b'{"article": "tea", "pieces": "2"}'),
        ("o-2", b'{"article": "tea", "pieces": "two"}'),
        ("o-3", b'{"article": "tea", "pieces": "many"}'),
        ("o-4", b"not even JSON"),
        ("o-5", b'{"article": "tea", "pieces": "5"}'),
    ]:
        orders.pipe_input(key, text)


def test_what_can_be_mended_goes_on_and_the_rest_is_put_aside() -> None:
    """As it was read, with the step that failed."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        pieces = driver.create_output_topic("pieces").read_key_values_to_list()
        letters = driver.create_output_topic(
            "errors-dead-letters", key=str, value=bytes
        ).read_records_to_list()
    assert pieces == [("o-1", 2), ("o-2", 2), ("o-5", 5)]
    assert [(letter.key, letter.value) for letter in letters] == [
        ("o-3", b'{"article": "tea", "pieces": "many"}'),
        ("o-4", b"not even JSON"),
    ]
    assert [dict(letter.headers)["mustela.error.step"] for letter in letters] == [
        b"pieces",
        b"order-lines",
    ]


@pytest.mark.parametrize(("failures", "passes"), [(4, True), (5, False)])
def test_a_service_that_is_away_is_told_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, passes: bool
) -> None:
    """Five times in all; then the order is put aside."""
    told: list[str] = []

    def urlopen(url: str, *, data: bytes, timeout: float) -> io.BytesIO:
        told.append(f"{url} {data.decode()} {timeout}")
        if len(told) <= failures:
            raise URLError("away")
        return io.BytesIO()

    monkeypatch.setattr(program, "urlopen", urlopen)
    monkeypatch.setattr(program, "WEBHOOK", "http://service")
    monkeypatch.setattr(program, "patient", replace(program.patient, initial=timedelta(0)))
    with TopologyTestDriver(program.app) as driver:
        driver.create_input_topic("order-lines").pipe_input("o-1", program.Order("tea", "2"))
        pieces = driver.create_output_topic("pieces").read_values_to_list()
        letters = driver.create_output_topic("errors-dead-letters").read_records_to_list()
    assert told == ["http://service/o-1 2 1"] * 5
    assert pieces == ([2] if passes else [])
    assert [dict(letter.headers)["mustela.error.attempts"] for letter in letters] == (
        [] if passes else [b"5"]
    )


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(program.app, feed)
