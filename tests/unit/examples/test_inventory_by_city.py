"""The example of an inventory by city."""

from __future__ import annotations

from typing import Any

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

program = load("e27_inventory_by_city")


def test_articles_are_found_by_city_after_partial_updates() -> None:
    """What a patch does not name stays; an article that moves is found where it is now."""
    with TopologyTestDriver(program.app, key_groups=8, lanes=3) as driver:
        articles = driver.create_input_topic("article-changes")
        cities = driver.create_input_topic("cities")
        articles.pipe_input("tea", {"place": {"city": "Rome", "shelf": 7}, "pieces": 5})
        articles.pipe_input("cup", {"place": {"city": "Oslo"}, "pieces": 2})
        articles.pipe_input("pot", {"place": {"city": "Rome"}})
        cities.pipe_input("who", "Rome")
        articles.pipe_input("tea", {"pieces": 3, "place": {"shelf": None}})
        articles.pipe_input("pot", {"place": {"city": "Oslo"}})
        driver.crash(lose_state=True)
        for city in ("Rome", "Oslo", "Bonn"):
            cities.pipe_input("who", city)
        found = driver.create_output_topic("in-city").read_values_to_list()
        store: Any = driver.store("articles")
        assert store["tea"] == {"place": {"city": "Rome"}, "pieces": 3}
        assert list(store.by("pieces").keys(2)) == ["cup", "tea"]
        with driver.snapshot() as seen:
            assert seen.store("articles").by("city").one("Oslo")[0] == "cup"
    assert found == [["pot: 0", "tea: 5"], ["tea: 3"], ["cup: 2", "pot: 0"], []]
