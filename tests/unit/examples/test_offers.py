"""The example of offers and answers."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e05_offers").app

MINUTE = 60_000


def feed(driver: TopologyTestDriver) -> None:
    offers, answers = driver.create_input_topic("offers"), driver.create_input_topic("answers")
    offers.pipe_input("o-1", "boat", timestamp=0)
    offers.pipe_input("o-2", "house", timestamp=0)
    answers.pipe_input("o-1", "yes", timestamp=60 * MINUTE)
    answers.pipe_input("o-2", "yes", timestamp=60 * MINUTE + 1)


def test_an_answer_counts_for_an_hour() -> None:
    """An offer without one is told when no answer can come any more."""
    with TopologyTestDriver(app) as driver:
        decided = driver.create_output_topic("decided")
        feed(driver)
        assert decided.read_key_values_to_list() == [("o-1", "boat: yes")]
        driver.advance_watermark(65 * MINUTE)
        assert decided.is_empty
        driver.advance_watermark(65 * MINUTE + 1)
        assert decided.read_key_values_to_list() == [("o-2", "house: no answer")]


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(app, feed)
