"""Spark's properties: defaults give way to the user's, the protocol's do not."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from mustela.errors import MustelaError
from mustela.spark import session
from mustela.spark.masters import (
    MasterUnknownError,
    MasterUnreachableError,
    SparkSecretError,
    open_to_all,
)
from mustela.spark.properties import (
    ForcedSparkPropertyError,
    check_joined,
    forced_properties,
    properties_for,
    with_submitted,
)
from mustela.spark.session import SparkNotStartedError, open_context

STANDALONE = "spark://127.0.0.1:7077"


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


def test_processes_authenticate_wherever_somebody_brings_them_the_secret() -> None:
    """A standalone master does not: there the secret is its administrator's, or there is none."""
    assert properties_for({})["spark.authenticate"] == "true"
    assert "spark.network.crypto.enabled" not in properties_for({})
    for master in ("yarn", "k8s://https://host:6443"):
        managed = properties_for({"spark.master": master})
        assert managed["spark.authenticate"] == "true"
        assert managed["spark.network.crypto.enabled"] == "true"
        assert "spark.driver.host" not in managed
    assert properties_for({"spark.master": STANDALONE})["spark.authenticate"] == "false"
    secret = {"spark.master": STANDALONE, "spark.authenticate.secret": "told"}
    assert properties_for(secret)["spark.authenticate"] == "true"
    assert properties_for(secret)["spark.network.crypto.enabled"] == "true"


def test_a_cluster_without_a_secret_is_named_at_the_start() -> None:
    """As an event, at each start: nobody runs one unknowingly."""
    bare = properties_for({"spark.master": STANDALONE})
    assert "spark.authenticate.secret" in (open_to_all(bare) or "")
    assert open_to_all(properties_for({"spark.master": "yarn"})) is None


def test_a_driver_is_reached_where_it_reaches_the_master() -> None:
    """Loopback only if the master is there; and what the user says stays as it is."""
    assert properties_for({"spark.master": STANDALONE})["spark.driver.host"] == "127.0.0.1"
    said = {"spark.master": STANDALONE, "spark.driver.host": "192.0.2.1"}
    assert properties_for(said)["spark.driver.host"] == "192.0.2.1"
    assert "spark.driver.bindAddress" not in properties_for({"spark.master": STANDALONE})


@pytest.mark.parametrize(
    ("wrong", "error", "right"),
    [
        ({"spark.master": "mesos://a:1"}, MasterUnknownError, {"spark.master": "local[*]"}),
        (
            {"spark.master": "spark://no-such-host.invalid:7077"},
            MasterUnreachableError,
            {"spark.driver.host": "192.0.2.1"},
        ),
        (
            {"spark.master": STANDALONE, "spark.authenticate": "true"},
            SparkSecretError,
            {"spark.authenticate.secret": "told"},
        ),
    ],
    ids=["unknown", "unreachable", "no secret"],
)
def test_the_fix_of_what_a_master_cannot_do_helps(
    wrong: dict[str, str], error: type[MustelaError], right: dict[str, str]
) -> None:
    """Each names the property that makes the start go on."""
    with pytest.raises(error) as caught:
        properties_for(wrong)
    assert all(name in (caught.value.fix or "") for name in right)
    assert properties_for(wrong | right)


def test_what_a_submitter_says_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's file of defaults gives way to settings; both are more than our own defaults."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master  spark://127.0.0.1:7077\nspark.ui.enabled=true\nother.x 1\n"
        "spark.speculation true\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = properties_for(with_submitted({"spark.driver.memory": "1g"}, None))
    assert found["spark.master"] == STANDALONE
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.speculation"] == "false"
    assert found["spark.driver.memory"] == "1g"
    assert "other.x" not in found
    assert with_submitted({"spark.master": "local[2]"}, None)["spark.master"] == "local[2]"


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
        assert option not in properties_for({"spark.master": STANDALONE})[name]
    assert properties_for({name: "-XX:+UseZGC"})[name] == "-XX:+UseZGC"


def test_a_long_pause_ends_nothing_where_driver_and_executor_are_one() -> None:
    """A machine that slept for a week goes on; on a cluster a lost host is given up in seconds."""
    local = properties_for({})
    assert local["spark.network.timeout"] == "20d"
    assert int(local["spark.executor.heartbeat.maxFailures"]) > 1_000_000
    assert properties_for({"spark.network.timeout": "90s"})["spark.network.timeout"] == "90s"
    cluster = properties_for({"spark.master": STANDALONE})
    assert cluster["spark.network.timeout"] == "20s"


def test_a_host_is_given_up_as_soon_as_the_limit_has_passed_and_the_limit_is_the_users() -> None:
    """The driver looks often whose heartbeat is too old, and one property alone says what is."""
    cluster = properties_for({"spark.master": STANDALONE})
    assert cluster["spark.network.timeoutInterval"] == "200ms"
    longer = properties_for({"spark.master": STANDALONE, "spark.network.timeout": "60s"})
    assert longer["spark.network.timeout"] == "60s"
    assert "spark.storage.blockManagerHeartbeatTimeoutMs" not in longer, "it would be the limit"


def test_a_start_that_spark_refuses_is_told_in_sparks_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody's bug: the property that Spark names is set as it wants, and Spark starts."""

    class Refusing:
        _gateway = None

        def __init__(self, conf: Any) -> None:
            if conf.get("spark.network.timeoutInterval") == "60s":
                msg = "requirement failed: spark.network.timeoutInterval should be less"
                raise Py4JError(msg)

        def setLogLevel(self, _level: str) -> None:
            pass

        def addFile(self, path: str) -> None:
            given.append(path)

    given: list[str] = []
    monkeypatch.setattr(session, "SparkContext", Refusing)
    monkeypatch.setattr(session, "own_jvm", lambda *_: nullcontext())
    user = {"spark.master": STANDALONE, "spark.network.timeoutInterval": "60s"}
    with pytest.raises(SparkNotStartedError, match="timeoutInterval should be less") as caught:
        open_context("shop", user)
    assert "the property that Spark names" in (caught.value.fix or "")
    assert open_context("shop", user | {"spark.network.timeoutInterval": "5s"})
    assert [Path(file).suffix for file in given] == [".whl"], "Mustela, for executors without it"


def test_a_session_on_a_cluster_is_looked_at_for_all_that_the_protocol_rests_on() -> None:
    """Spark's defaults would run the part of a stage again that a lost executor held."""
    session_of_users = {"spark.master": STANDALONE}
    for name in ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts"):
        with pytest.raises(ForcedSparkPropertyError, match=f"{name} at 4, Spark's") as caught:
            check_joined(session_of_users)
        assert caught.value.fix == f'build the session with .config("{name}", "1")'
        session_of_users[name] = "1"
    check_joined(session_of_users)
    for name, wrong in (("spark.speculation", "true"), ("spark.python.worker.reuse", "false")):
        with pytest.raises(ForcedSparkPropertyError, match=name):
            check_joined({**session_of_users, name: wrong})


def test_a_session_on_one_host_may_have_sparks_defaults() -> None:
    """Nothing is lost there but with the whole epoch."""
    check_joined({"spark.master": "local[2]"})
    with pytest.raises(ForcedSparkPropertyError, match="speculation"):
        check_joined({"spark.master": "local[2]", "spark.speculation": "true"})
