"""The example that may be killed at any moment."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e22_kill").app


def test_no_number_is_missing_and_none_is_twice() -> None:
    """With a crash before and after every commit, and with the disk lost in the middle."""
    with TopologyTestDriver(app, crash_after_every_record=True) as driver:
        numbers = driver.create_input_topic("numbers")
        for number in range(1, 11):
            numbers.pipe_input("n", str(number))
            if number % 4 == 0:
                driver.crash(lose_state=True)
        totals = driver.create_output_topic("totals").read_values_to_list()
    assert totals == [1, 3, 6, 10, 15, 21, 28, 36, 45, 55]


def test_it_is_safe() -> None:
    """However it is run."""

    def feed(driver: TopologyTestDriver) -> None:
        driver.create_input_topic("numbers").pipe_key_value_list(
            [("n", "1"), ("m", "2"), ("n", "3")]
        )

    assert_topology_safe(app, feed)
