"""How an application takes its settings from the program."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela.config.errors import SettingValueError
from mustela.events import AppState
from mustela.serdes.schemas.faults import RegistryOptionError


def test_settings_may_be_one_mapping_as_in_the_driver() -> None:
    """By Mustela's names or Kafka Streams'; keywords win."""
    said = {"commit.interval.ms": 250, "emit": "every", "naming": {"strict": False}}
    app = App("shop", settings=said, emit="barrier", bootstrap_servers="x:1")
    assert app.settings.application_id == "shop"
    assert app.settings.commit_interval == timedelta(milliseconds=250)
    assert app.settings.emit == "barrier"
    assert not app.settings.naming.strict
    assert said["emit"] == "every"


@pytest.mark.parametrize("name", ["processing_guarantee", "processing.guarantee"])
def test_kafkas_name_of_the_guarantee_is_taken(name: str) -> None:
    """``exactly_once_v2`` is the one there is; the driver takes it too."""
    app = App("shop", settings={name: "exactly_once_v2"})
    assert app.settings.processing_guarantee == "exactly_once"
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder, settings={name: "exactly_once_v2"}) as driver:
        assert driver.produced_topic_names == set()


def test_another_guarantee_is_refused() -> None:
    """With what there is."""
    with pytest.raises(SettingValueError, match="exactly_twice"):
        _ = App("shop", processing_guarantee="exactly_twice").settings


def test_a_registry_inside_the_process_is_for_the_test_driver() -> None:
    """Each of Spark's workers would have one of its own; the driver has one process."""
    app = App("shop", {"schema.registry.url": "mock://shop"})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).to("out")

    with TopologyTestDriver(app) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
    with pytest.raises(RegistryOptionError, match="inside the process"):
        app.start()
    assert app.state is AppState.CREATED
