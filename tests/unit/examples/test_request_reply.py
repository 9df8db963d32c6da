"""The example of prices that another program knows."""

from __future__ import annotations

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

program = load("e20_request_reply")


def test_an_order_waits_for_the_reply_to_its_request() -> None:
    """Replies may come in any order, once or twice; without one an order has no price."""
    with TopologyTestDriver(program.app, initial_wall_clock=0, key_groups=8) as driver:
        orders = driver.create_input_topic("unpriced")
        requests = driver.create_output_topic("price-requests")
        replies = driver.create_input_topic("price-replies")
        priced = driver.create_output_topic("priced")
        for key, article in [("o-1", "tea"), ("o-2", "cup"), ("o-3", "jam")]:
            orders.pipe_input(key, article)
        asked = {request.value: request.headers for request in requests.read_records_to_list()}
        driver.crash(lose_state=True)
        replies.pipe_input(None, "8", headers=asked["cup"])
        replies.pipe_input(None, "3", headers=asked["tea"])
        replies.pipe_input(None, "99", headers=asked["tea"])
        assert priced.read_key_values_to_list() == [
            ("o-2", program.Priced("cup", "8")),
            ("o-1", program.Priced("tea", "3")),
        ]
        driver.advance_wall_clock_time(30_000)
        assert priced.read_key_values_to_list() == [("o-3", program.Priced("jam", None))]
        assert requests.is_empty
