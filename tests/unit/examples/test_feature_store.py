"""The example of a feature store."""

from __future__ import annotations

import pytest

from mustela import TopologyTestDriver
from mustela.stores import QueryRefusedError
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e29_feature_store")
Features, Label, Purchase = program.Features, program.Label, program.Purchase

DAY = 86_400_000
NOON = 20_000 * DAY + DAY // 2


def feed(driver: TopologyTestDriver) -> None:
    purchases = driver.create_input_topic("customer-purchases")
    with driver.epoch():
        purchases.pipe_input("ann", Purchase("tea", 4.0), timestamp=NOON)
        purchases.pipe_input("ann", Purchase("cup", 8.0), timestamp=NOON + 9_000)
    labels = driver.create_input_topic("labels")
    labels.pipe_input("ann", Label(returned=True), timestamp=NOON + 5_000)
    labels.pipe_input("bob", Label(returned=True), timestamp=NOON + 6_000)
    labels.pipe_input("ann", Label(returned=False), timestamp=NOON + 9_000)
    driver.advance_watermark(NOON + DAY)


def test_a_training_row_has_what_was_known_at_the_time_of_its_label() -> None:
    """Also if the next change came in the same epoch, and before the label was read."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        rows = driver.create_output_topic("training").read_key_values_to_list()
    assert rows == [
        ("ann", program.TrainingRow(returned=True, purchases=1, mean=4.0, last="tea")),
        ("ann", program.TrainingRow(returned=False, purchases=2, mean=6.0, last="cup")),
    ]


def test_features_are_looked_up_as_they_are_and_as_they_were() -> None:
    """By customer, at any time of the history, and many at once."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        features = driver.store("features")
        assert features["ann"].value == Features(2, 6.0, "cup")
        assert features.get("ann", as_of=NOON + 8_999).value == Features(1, 4.0, "tea")
        assert features.get("ann", as_of=NOON - 1) is None
        newest, unknown = features.get_many(["ann", "bob"])
        assert (newest.timestamp, newest.valid_to, unknown) == (NOON + 9_000, None, None)


def test_a_model_is_given_the_newest_features_and_the_purchases_of_a_week() -> None:
    """Of one epoch; a customer who never bought anything is not known."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        purchases = driver.create_input_topic("customer-purchases")
        for day in (7, 9):
            purchases.pipe_input("ann", Purchase("pot", 3.0), timestamp=NOON + day * DAY)
        with driver.snapshot() as snapshot:
            assert program.vector(snapshot, "ann") == program.Vector(4, 4.5, "pot", 2)
            with pytest.raises(QueryRefusedError, match="has bought nothing"):
                program.vector(snapshot, "bob")


def test_it_is_safe() -> None:
    """Stream time is left out: there, a label waits until another one comes."""
    assert_topology_safe(program.app, feed, but_not=["event_time"])
