"""Spark's properties: defaults give way to the user's, the protocol's do not."""

from __future__ import annotations

import pytest

from mustela.spark.session import ForcedSparkPropertyError, forced_properties, properties_for


def test_the_user_may_change_defaults_and_add_more() -> None:
    """Everything that the protocol does not depend on."""
    properties = properties_for({"spark.master": "local[3]", "spark.my.own": "1"})
    assert properties["spark.master"] == "local[3]"
    assert properties["spark.my.own"] == "1"
    assert properties["spark.ui.enabled"] == "false"


@pytest.mark.parametrize("name", sorted(forced_properties()))
def test_a_property_that_the_protocol_depends_on_cannot_be_changed(name: str) -> None:
    """The error names it and its value; saying the same value is no error."""
    value = forced_properties()[name]
    assert properties_for({name: value})[name] == value
    with pytest.raises(ForcedSparkPropertyError) as caught:
        properties_for({name: "other"})
    assert name in str(caught.value)
    assert value in str(caught.value)


def test_every_attempt_of_an_epoch_is_a_whole_one() -> None:
    """Spark must never repeat a part of a job."""
    properties = properties_for({})
    assert properties["spark.task.maxFailures"] == "1"
    assert properties["spark.stage.maxConsecutiveAttempts"] == "1"
    assert properties["spark.speculation"] == "false"


def test_a_cluster_encrypts_what_it_shuffles_and_a_single_host_does_not() -> None:
    """On one host nothing leaves the machine."""
    assert "spark.network.crypto.enabled" not in properties_for({})
    cluster = properties_for({"spark.master": "spark://host:7077"})
    assert cluster["spark.network.crypto.enabled"] == "true"
    assert "spark.python.unix.domain.socket.enabled" not in cluster


def test_a_local_context_listens_on_the_loopback_only() -> None:
    """Whatever the host's name resolves to."""
    properties = properties_for({})
    assert properties["spark.driver.bindAddress"] == "127.0.0.1"
    assert properties["spark.driver.host"] == "127.0.0.1"
    assert properties["spark.authenticate"] == "true"


def test_the_heap_is_small_where_records_go_by_file() -> None:
    """On a cluster the driver's JVM sees the rows; and what the user says stays as it is."""
    name = "spark.driver.extraJavaOptions"
    for option in ("-Xmn", "-Xms", "-XX:MaxHeapFreeRatio="):
        assert option in properties_for({})[name]
        assert option not in properties_for({"spark.master": "spark://host:7077"})[name]
    assert properties_for({name: "-XX:+UseZGC"})[name] == "-XX:+UseZGC"


def test_a_long_pause_ends_nothing_where_driver_and_executor_are_one() -> None:
    """A machine that slept for a week goes on; on a cluster Spark's own limits hold."""
    local = properties_for({})
    assert local["spark.network.timeout"] == "20d"
    assert int(local["spark.executor.heartbeat.maxFailures"]) > 1_000_000
    assert properties_for({"spark.network.timeout": "90s"})["spark.network.timeout"] == "90s"
    cluster = properties_for({"spark.master": "spark://host:7077"})
    assert "spark.network.timeout" not in cluster
