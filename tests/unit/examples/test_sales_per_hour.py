"""The example of sales in each hour."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e03_sales_per_hour").app

HOUR = 3_600_000
MINUTE = 60_000


def feed(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("shop-sales").pipe_table(
        """
        time                 | key | article | amount
        1970-01-01T00:05:00Z | ulm | tea     | 3.5
        1970-01-01T00:10:00Z | ulm | tea     | 1.5
        1970-01-01T00:59:00Z | ulm | cup     | 8
        1970-01-01T01:05:00Z | ulm | tea     | 2
        1970-01-01T00:58:00Z | ulm | jam     | 1
        """
    )
    driver.advance_watermark(HOUR + 10 * MINUTE)


def test_an_hour_is_told_once_when_it_is_over() -> None:
    """Ten minutes after its end, with the sale that was late."""
    with TopologyTestDriver(app) as driver:
        hours = driver.create_output_topic("hours")
        feed(driver)
        (row,) = hours.read_values_to_list()
        assert (row.key, row.start, row.end) == ("ulm", 0, HOUR)
        told = row.value
        assert (told.sales, told.total, told.largest, told.articles) == (4, 14.0, 8.0, 3)
        driver.advance_watermark(3 * HOUR)
        (row,) = hours.read_values_to_list()
        assert (row.start, row.value.sales) == (HOUR, 1)


def test_it_is_safe() -> None:
    """Stream time is left out: there, no hour ends while nothing is sold."""
    assert_topology_safe(app, feed, but_not=["event_time"])
