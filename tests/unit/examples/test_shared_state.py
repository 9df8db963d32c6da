"""The example of points that are won and spent does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

app = load("e15_shared_state").app

WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_points_are_won_and_spent_in_order_by_whoever_plays(way: dict[str, Any]) -> None:
    """A point is spent once, though games and orders come in other lanes than the players."""
    with TopologyTestDriver(app, **way) as driver:
        driver.create_input_topic("players").pipe_key_value_list([("ann", "Ann"), ("bob", "Bob")])
        games, orders = driver.create_input_topic("games"), driver.create_input_topic("purchases")
        with driver.epoch():
            games.pipe_input("g-1", ["ann", "bob"], timestamp=1)
            orders.pipe_input("o-1", {"by": "ann", "price": 2}, timestamp=2)
            orders.pipe_input("o-2", {"by": "ann", "price": 2}, timestamp=3)
            orders.pipe_input("o-3", {"by": "eve", "price": 1}, timestamp=4)
            games.pipe_input("g-2", ["ann"], timestamp=5)
            orders.pipe_input("o-4", {"by": "ann", "price": 4}, timestamp=6)
        sold = dict(driver.create_output_topic("sold").read_key_values_to_list())
        points = dict(driver.get_key_value_store("points").all())
    assert sold == {
        "o-1": "ann has 1 left",
        "o-2": "ann has only 1",
        "o-3": "eve is no player",
        "o-4": "ann has 0 left",
    }
    assert points == {"ann": 0, "bob": 3}
