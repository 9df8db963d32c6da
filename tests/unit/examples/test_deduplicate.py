"""The example ``examples/e10_deduplicate.py``."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load


@pytest.mark.parametrize(
    "options", [{}, {"key_groups": 4, "lanes": 2, "crash_after_every_record": True}]
)
def test_each_order_passes_once(options: dict[str, Any]) -> None:
    """Also where they come in one epoch, and over crashes."""
    with TopologyTestDriver(load("e10_deduplicate").app, **options) as driver:
        orders = driver.create_input_topic("repeated-orders")
        with driver.epoch():
            orders.pipe_key_value_list([("o-1", "tea"), ("o-1", "tea")])
        orders.pipe_input("o-1", "tea")
        orders.pipe_input("o-2", "milk")
        found = driver.create_output_topic("new-orders").read_key_values_to_list()
        assert found == [("o-1", "tea, seen 1 time"), ("o-2", "milk, seen 1 time")]
        again = driver.create_output_topic("repeats").read_key_values_to_list()
        assert again == [("o-1", 2), ("o-1", 3)]
