"""The example of an inventory."""

from __future__ import annotations

import random

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e17_inventory")
Change = program.Change


def feed(driver: TopologyTestDriver) -> None:
    inventory = driver.create_input_topic("inventory")
    for key, kind, pieces in [
        ("d-1", "deliver", {"tea": 5, "cup": 1}),
        ("o-1", "reserve", {"tea": 2, "cup": 1}),
        ("o-1", "reserve", {"tea": 2, "cup": 1}),
        ("o-2", "reserve", {"tea": 2, "cup": 1}),
        ("o-1", "release", {"tea": 9, "cup": 1}),
        ("o-1", "release", {"tea": 2, "cup": 1}),
        ("o-1", "release", {"tea": 2, "cup": 1}),
        ("o-3", "reserve", {"tea": 0}),
        ("o-4", "steal", {"tea": 1}),
    ]:
        inventory.pipe_input(key, Change(kind, pieces))


def test_an_order_is_reserved_whole_or_not_at_all() -> None:
    """And given back once, as it was."""
    with TopologyTestDriver(program.app, key_groups=8) as driver:
        feed(driver)
        stock = driver.create_output_topic("stock").read_key_values_to_list()
        refused = driver.create_output_topic("refused").read_key_values_to_list()
        left = dict(driver.get_key_value_store("stock").all())
    assert [row for row in stock if row[0] == "cup"] == [("cup", 1), ("cup", 0), ("cup", 1)]
    assert [row for row in stock if row[0] == "tea"] == [("tea", 5), ("tea", 3), ("tea", 5)]
    assert refused == [
        ("o-1", "reserve: reserved already"),
        ("o-2", "reserve: cup: 0 left"),
        ("o-1", "release: not what was reserved"),
        ("o-1", "release: not what was reserved"),
        ("o-3", "reserve: no pieces"),
        ("o-4", "steal: no such change"),
    ]
    assert left == {"tea": 5, "cup": 1}


def test_a_release_that_was_refused_keeps_the_reservation() -> None:
    """A transaction that is refused takes back what it had done."""
    with TopologyTestDriver(program.app) as driver:
        inventory = driver.create_input_topic("inventory")
        inventory.pipe_input("d-1", Change("deliver", {"tea": 5}))
        inventory.pipe_input("o-1", Change("reserve", {"tea": 2}))
        inventory.pipe_input("o-1", Change("release", {"tea": 3}))
        assert driver.get_key_value_store("reservations")["o-1"] == {"tea": 2}


def test_stock_is_never_below_nothing_and_nothing_is_lost() -> None:
    """Many orders at once: what is there and what is reserved is what was delivered."""
    rng = random.Random(7)
    with TopologyTestDriver(
        program.app, key_groups=8, lanes=3, crash_after_every_record=True
    ) as driver:
        inventory = driver.create_input_topic("inventory")
        for article in "abc":
            inventory.pipe_input(f"d-{article}", Change("deliver", {article: 10}))
        for _ in range(4):
            with driver.epoch():
                for _ in range(15):
                    order = rng.randrange(12)
                    wanted = random.Random(order).sample("abc", 2)
                    kind = rng.choice(["reserve", "release"])
                    pieces = dict.fromkeys(wanted, 1 + order % 3)
                    inventory.pipe_input(f"o-{order}", Change(kind, pieces))
        now = driver.create_output_topic("stock").read_key_values_to_list()
        stock = dict(driver.get_key_value_store("stock").all())
        for _, pieces in driver.get_key_value_store("reservations").all():
            for article, count in pieces.items():
                stock[article] += count
    assert min(left for _, left in now) >= 0
    assert stock == {"a": 10, "b": 10, "c": 10}


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(program.app, feed)
