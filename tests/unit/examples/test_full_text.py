"""The example of a full-text search."""

from __future__ import annotations

from typing import Any

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e26_full_text")


def feed(driver: TopologyTestDriver) -> None:
    notes = driver.create_input_topic("notes")
    searches = driver.create_input_topic("searches")
    for time, (shop, name, text) in enumerate(
        [
            ("shop", "n1", "Runners run in running shoes"),
            ("shop", "n2", "Shoes for walking, and a shoe"),
            ("bar", "n3", "Walk in, in shoes"),
        ]
    ):
        notes.pipe_input(shop, program.Note(name, text), timestamp=time)
    for time, words in enumerate(("shoe WALKED", "shoe", "boots", "..."), start=10):
        searches.pipe_input("shop", words, timestamp=time)
    notes.pipe_input("shop", program.Note("n2", "Boots for walking"), timestamp=20)
    for time, words in enumerate(("shoe", "boot"), start=30):
        searches.pipe_input("shop", words, timestamp=time)


def test_notes_are_found_by_the_stems_of_all_words() -> None:
    """Of the shop alone; a note that is written again is found by its new words only."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        found = driver.create_output_topic("found").read_values_to_list()
        driver.crash(lose_state=True)
        store: Any = driver.get_state_store("search")
        assert store.find("bar", "walking shoe") == ["n3"]
    assert found == [["n2"], ["n1", "n2"], [], [], ["n1"], ["n2"]]


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(program.app, feed)
