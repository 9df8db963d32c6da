"""The example of payments that wait for a slow service."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e19_parking_lot")
Payment, Checked = program.Payment, program.Checked


def test_those_that_wait_keep_their_order_and_hold_nobody_else_up() -> None:
    """Also over a crash that loses the state: what was parked is asked again, and told once."""
    with TopologyTestDriver(program.app, hold_calls=True, key_groups=8, lanes=3) as driver:
        payments = driver.create_input_topic("payments")
        checked = driver.create_output_topic("checked")
        payments.pipe_input("ann", Payment(900))
        payments.pipe_input("ann", Payment(5_000))
        payments.pipe_input("bob", Payment(20))
        of_ann, of_bob = sorted(driver.held_calls(), key=lambda call: str(call.key))
        assert (of_ann.key, of_ann.value) == ("ann", Payment(900))
        driver.complete_calls([of_bob])
        assert checked.read_key_values_to_list() == [("bob", Checked(20, "ok"))]
        driver.crash(lose_state=True)
        driver.advance_wall_clock_time(1)
        (again,) = driver.held_calls()
        assert again.idempotency_key == of_ann.idempotency_key
        while driver.complete_calls():
            pass
        assert checked.read_key_values_to_list() == [
            ("ann", Checked(900, "ok")),
            ("ann", Checked(5_000, "review")),
        ]


def test_a_payment_without_an_answer_is_looked_at() -> None:
    """It does not stop the application, nor the payments after it."""
    with TopologyTestDriver(program.app, hold_calls=True) as driver:
        payments = driver.create_input_topic("payments")
        payments.pipe_input("ann", Payment(10))
        payments.pipe_input("ann", Payment(20))
        driver.fail_calls(ConnectionError("no answer"))
        driver.complete_calls()
        told = driver.create_output_topic("checked").read_values_to_list()
    assert told == [Checked(10, "review"), Checked(20, "ok")]


def test_it_is_safe() -> None:
    """However it is run."""

    def feed(driver: TopologyTestDriver) -> None:
        payments = driver.create_input_topic("payments")
        payments.pipe_key_value_list(
            [("ann", Payment(1)), ("bob", Payment(2)), ("ann", Payment(3))]
        )

    assert_topology_safe(program.app, feed)
