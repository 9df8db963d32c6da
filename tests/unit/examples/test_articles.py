"""The example of articles and their makers."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e07_articles")


def feed(driver: TopologyTestDriver) -> None:
    articles, makers = driver.create_input_topic("articles"), driver.create_input_topic("makers")
    articles.pipe_input("a-1", program.Article("boat", "m-1"))
    articles.pipe_input("a-2", program.Article("oar", "m-1"))
    makers.pipe_input("m-1", "Ann")
    articles.pipe_input("a-2", program.Article("oar", "m-2"))
    makers.pipe_input("m-1", "Ann & Co")


def test_rows_follow_articles_and_makers() -> None:
    """Each change of either reaches the rows that it concerns, and no others."""
    with TopologyTestDriver(program.app, {"emit": "every"}, key_groups=8) as driver:
        feed(driver)
        driver.create_input_topic("articles").pipe_input("a-1", None)
        rows = driver.create_output_topic("listed").read_key_values_to_list()
    assert [row for row in rows if row[0] == "a-1"] == [
        ("a-1", "boat by somebody"),
        ("a-1", "boat by Ann"),
        ("a-1", "boat by Ann & Co"),
        ("a-1", None),
    ]
    assert [row for row in rows if row[0] == "a-2"] == [
        ("a-2", "oar by somebody"),
        ("a-2", "oar by Ann"),
        ("a-2", "oar by somebody"),
    ]


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(program.app, feed)
