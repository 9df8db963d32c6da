"""Settings: four sources in order, every name checked, every value named with its source."""

from __future__ import annotations

import pickle
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mustela.config.aliases import aliases
from mustela.config.errors import (
    MustelaSettingWarning,
    SettingsFileError,
    SettingValueError,
    UnknownSettingError,
)
from mustela.config.settings import EpochSettings, Settings, default_state_dir, setting_keys
from mustela.errors import UsageError


@pytest.fixture
def load(tmp_path: Path):
    """Load settings from a file's text, an environment and code, away from this machine's own."""

    def loader(yaml: str | None = None, environ: dict[str, str] | None = None, /, **code: Any):
        if yaml is not None:
            (tmp_path / "mustela.yaml").write_text(yaml, encoding="utf-8")
        given = {"application_id": "app", **code}
        return Settings.load(
            given, environ={"HOME": "/var/joe", **(environ or {})}, directory=tmp_path
        )

    return loader


def test_defaults_are_those_of_the_design(load):
    """Exactly once, 100 ms, key groups by the cores, lmdb, a per-user directory."""
    settings = load()
    assert settings.bootstrap_servers == "localhost:9092"
    assert settings.processing_guarantee == "exactly_once"
    assert settings.commit_interval == timedelta(milliseconds=100)
    assert settings.commit_timeout == timedelta(seconds=60)
    assert settings.epoch.max_bytes == 64 * 2**20
    assert settings.epoch.max_time == timedelta(seconds=1)
    assert settings.lanes is None
    assert settings.key_groups is None
    assert settings.state_dir == Path("/var/joe/.local/state/mustela")
    assert settings.state.backend == "lmdb"
    assert settings.replication_factor == -1
    assert settings.auto_offset_reset == "earliest"
    assert settings.event_time == "watermark"
    assert settings.emit == "barrier"
    assert settings.idleness == timedelta(seconds=60)
    assert settings.naming.strict
    assert not settings.topics.create
    assert settings.deserialization_handler == "fail"
    assert settings.dead_letter_topic == "app-dead-letters"
    assert settings.epoch_header == "mustela.epoch"
    assert settings.spark == {}
    assert settings.kafka == {}
    assert all(
        settings.source_of(key) == "default" for key in setting_keys() if key != "application_id"
    )


def test_code_wins_over_environment_over_file_over_default(load):
    """Each later source wins, value by value, and every value knows its source."""
    yaml = "lanes: 1\nkey_groups: 8\nepoch:\n  max_records: 1\n  max_time: 3s\n"
    environ = {"MUSTELA__LANES": "2", "MUSTELA__EPOCH__MAX_RECORDS": "2"}
    settings = load(yaml, environ, lanes=3)
    assert (settings.lanes, settings.key_groups) == (3, 8)
    assert (settings.epoch.max_records, settings.epoch.max_time) == (2, timedelta(seconds=3))
    assert settings.source_of("lanes") == "code"
    assert settings.source_of("key_groups") == "mustela.yaml:2"
    assert settings.source_of("epoch.max_records") == "environment MUSTELA__EPOCH__MAX_RECORDS"
    assert settings.source_of("epoch.max_time") == "mustela.yaml:5"
    assert settings.source_of("epoch.max_bytes") == "default"
    with pytest.raises(KeyError):
        settings.source_of("lane")


def test_the_process_is_where_load_looks(tmp_path, monkeypatch):
    """Without arguments: this environment and this working directory."""
    (tmp_path / "mustela.yaml").write_text("application_id: from-file\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTELA__LANES", "5")
    settings = Settings.load()
    assert (settings.application_id, settings.lanes) == ("from-file", 5)
    assert Settings.load(application_id="code").application_id == "code"


def test_the_file_may_be_named(load, tmp_path):
    """MUSTELA_CONFIG_FILE takes the place of mustela.yaml, and must then exist."""
    other = tmp_path / "other.yaml"
    other.write_text("lanes: 7\n")
    settings = load("lanes: 1\n", {"MUSTELA_CONFIG_FILE": str(other)})
    assert settings.lanes == 7
    assert settings.source_of("lanes") == f"{other}:1"
    with pytest.raises(SettingsFileError, match="cannot read the settings file"):
        load(None, {"MUSTELA_CONFIG_FILE": str(tmp_path / "gone.yaml")})


@pytest.mark.parametrize("text", ["", "# nothing\n", "epoch:\n", "lanes:\n", "spark:\nkafka:\n"])
def test_an_empty_file_or_section_says_nothing(load, text):
    """A section with everything commented out is allowed."""
    assert load(text).lanes is None


@pytest.mark.parametrize(
    "code",
    [
        {"epoch": {"max_records": 5}},
        {"epoch.max_records": 5},
        {"epoch": EpochSettings(max_records=5)},
        {"epoch": {"max_records": "5"}},
    ],
)
def test_code_may_be_nested_or_dotted(load, code):
    """All of them mean the same, and leave the rest of the section alone."""
    settings = load("epoch: {max_time: 2s}", None, **code)
    assert settings.epoch.max_records == 5
    assert settings.epoch.max_time == timedelta(seconds=2)


@pytest.mark.parametrize(
    "value",
    [0.2, "0.2", "200ms", "200 ms", "0.2s", "PT0.2S", timedelta(milliseconds=200), "200000us"],
)
def test_durations_have_many_spellings(load, value):
    """Seconds as a number, units, ISO 8601, timedelta."""
    assert load(commit_interval=value).commit_interval == timedelta(milliseconds=200)


UNKNOWN: list[tuple[dict[str, Any], str, str]] = [
    ({"yaml": "\ncomit_interval: 1s"}, "mustela.yaml:2", "commit_interval"),
    ({"yaml": "epoch:\n  max_record: 1"}, "mustela.yaml:2", "epoch.max_records"),
    ({"yaml": "max_records: 1"}, "mustela.yaml:1", "epoch.max_records"),
    ({"environ": {"MUSTELA__LANE": "1"}}, "environment MUSTELA__LANE", "lanes"),
    ({"environ": {"MUSTELA__STATE__BAKEND": "1"}}, "MUSTELA__STATE__BAKEND", "state.backend"),
    ({"code": {"commit.interval": 1}}, "code", "commit.interval.ms"),
    ({"code": {"aplication_id": "x"}}, "code", "application_id"),
    ({"code": {"kafka": {"security.protocl": "ssl"}}}, "code", "kafka.security.protocol"),
    ({"code": {"kafka": {"consumer.fetch.min.byte": 1}}}, "code", "kafka.consumer.fetch.min.bytes"),
    ({"yaml": "lanes:\n  many: 1"}, "mustela.yaml:2", "lanes"),
    ({"code": {"epoch": 5}}, "code", ""),
    ({"code": {"": 5}}, "code", ""),
]


@pytest.mark.parametrize(("given", "source", "close"), UNKNOWN, ids=str)
def test_an_unknown_name_is_an_error_wherever_it_stands(load, given, source, close):
    """The error names the place and what was probably meant."""
    with pytest.raises(UnknownSettingError) as caught:
        load(given.get("yaml"), given.get("environ"), **given.get("code", {}))
    assert source in str(caught.value)
    assert close in str(caught.value.fix)
    assert caught.value.code == "SETTING_UNKNOWN"


BAD_VALUES: list[tuple[str, Any, str]] = [
    *(
        ("application_id", bad, "letters, digits")
        for bad in ("", ".", "..", "a b", "a/b", "x" * 201)
    ),
    *(("application_id", bad, "string") for bad in (5, None)),
    ("application_id", "app\n", "letters, digits"),
    *(("commit_interval", bad, "200ms") for bad in ("soon", "1y", True, [1], "PT", "", "1e400")),
    ("commit_interval", -1, "cannot be negative"),
    *(("latency_target", bad, "commit_interval, which is 100ms") for bad in ("99ms", 0)),
    ("commit_timeout", 0, "greater than 0"),
    ("lanes", 0, "greater than or equal to 1"),
    ("lanes", "many", "a whole number"),
    ("lanes", True, "not true or false"),
    *(("key_groups", bad, "power of two") for bad in (3, 33)),
    ("key_groups", 0, "greater than"),
    ("replication_factor", 0, "-1 for the broker"),
    ("processing_guarantee", "at_most_once", "'exactly_once' or 'at_least_once'"),
    ("auto_offset_reset", "newest", "earliest, latest, none, or by_duration:"),
    ("processing_handler", "ignore", "'fail', 'continue' or 'dead_letter'"),
    ("dead_letter_topic", "a b", "a topic's name"),
    ("epoch.max_bytes", "lots", "64MiB"),
    ("epoch.max_bytes", -1, "64MiB"),
    ("epoch.max_records", 0, "greater than"),
    ("state.backend", "rocksdb", "'lmdb' or 'memory'"),
    ("naming.strict", "perhaps", "true or false"),
    ("bootstrap_servers", "", "at least 1"),
]


@pytest.mark.parametrize(("key", "value", "allowed"), BAD_VALUES, ids=str)
def test_a_wrong_value_is_named_with_its_source_and_what_is_allowed(load, key, value, allowed):
    """Never a traceback of the library that checks it."""
    with pytest.raises(SettingValueError) as caught:
        load(**{key: value})
    error = caught.value
    assert error.fields["key"] == key
    assert error.fields["source"] == "code"
    assert allowed in error.evidence["allowed"]
    assert error.__suppress_context__
    assert "pydantic" not in str(error)


def test_all_wrong_values_are_told_at_once(load):
    """Mend the file in one go."""
    with pytest.raises(SettingValueError) as caught:
        load("lanes: 0\nemit: never\n", {"MUSTELA__KEY_GROUPS": "3"})
    assert set(caught.value.fields["keys"]) == {"lanes", "emit", "key_groups"}
    for source in ("mustela.yaml:1", "mustela.yaml:2", "environment MUSTELA__KEY_GROUPS"):
        assert source in str(caught.value)


def test_the_application_id_is_required(tmp_path):
    """It names the group, the transactional id and the internal topics."""
    with pytest.raises(SettingValueError, match="application_id is missing"):
        Settings.load(environ={}, directory=tmp_path)
    with pytest.raises(SettingValueError):
        Settings()  # pyright: ignore[reportCallIssue]


BAD_FILES = [
    ("a: [", "not|while|expected"),
    ("- a\n- b\n", "not a mapping"),
    ("5", "not a mapping"),
    ("lanes: 1\nlanes: 2\n", "says lanes twice"),
    ("epoch:\n  max_records: 1\n  max_records: 2\n", "says epoch.max_records twice"),
    ("lanes: !!python/object/apply:os.system ['true']\n", "constructor"),
    ("{[1]: 2}", "cannot read|unhashable|not"),
]


@pytest.mark.parametrize(("text", "told"), BAD_FILES, ids=str)
def test_a_bad_file_is_a_named_error(load, text, told):
    """Also one that would run code."""
    with pytest.raises(SettingsFileError, match=told):
        load(text)


def test_a_file_that_is_not_text_is_a_named_error(load, tmp_path):
    """No traceback of a codec."""
    (tmp_path / "mustela.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsFileError, match="not UTF-8"):
        load()


def test_a_broken_file_does_not_show_its_text(load):
    """The line that cannot be read may hold a password."""
    with pytest.raises(SettingsFileError) as caught:
        load("kafka:\n  sasl.password: 'hunter2\n")
    assert "hunter2" not in str(caught.value)


KAFKA_STREAMS: list[tuple[str, Any, str, Any]] = [
    ("application.id", "other", "application_id", "other"),
    ("bootstrap.servers", "a:1", "bootstrap_servers", "a:1"),
    ("processing.guarantee", "exactly_once_v2", "processing_guarantee", "exactly_once"),
    ("processing_guarantee", "exactly_once_v2", "processing_guarantee", "exactly_once"),
    ("processing.guarantee", "at_least_once", "processing_guarantee", "at_least_once"),
    ("commit.interval.ms", 250, "commit_interval", timedelta(milliseconds=250)),
    ("commit.interval.ms", "250", "commit_interval", timedelta(milliseconds=250)),
    ("commit_interval_ms", "250", "commit_interval", timedelta(milliseconds=250)),
    ("state.dir", "/data", "state_dir", Path("/data")),
    ("replication.factor", 3, "replication_factor", 3),
    ("auto.offset.reset", "latest", "auto_offset_reset", "latest"),
    ("consumer.auto.offset.reset", "latest", "auto_offset_reset", "latest"),
    ("max.task.idle.ms", 500, "max_task_idle", timedelta(milliseconds=500)),
    ("statestore.cache.max.bytes", 0, "emit", "every"),
    ("statestore.cache.max.bytes", "10485760", "emit", "barrier"),
    (
        "default.deserialization.exception.handler",
        "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
        "deserialization_handler",
        "continue",
    ),
    (
        "processing.exception.handler",
        "LogAndFailProcessingExceptionHandler",
        "processing_handler",
        "fail",
    ),
    ("ensure.explicit.internal.resource.naming", "false", "naming.strict", False),
    ("default.dsl.store", "in_memory", "state.backend", "memory"),
    ("errors.deadletterqueue.topic.name", "bad", "dead_letter_topic", "bad"),
    ("consumer.fetch.min.bytes", 5, "kafka", {"consumer.fetch.min.bytes": "5"}),
    ("producer.linger.ms", 5, "kafka", {"producer.linger.ms": "5"}),
    ("admin.retry.backoff.ms", 5, "kafka", {"admin.retry.backoff.ms": "5"}),
    ("security.protocol", "SSL", "kafka", {"security.protocol": "SSL"}),
]


def value_of(settings: Settings, key: str) -> Any:
    section, _, inner = key.partition(".")
    value = getattr(settings, section)
    return getattr(value, inner) if inner else value


@pytest.mark.parametrize(("name", "value", "key", "expected"), KAFKA_STREAMS, ids=str)
def test_names_of_kafka_streams_mean_the_same_here(tmp_path, name, value, key, expected):
    """A properties file moves over as it is, from code and from the file."""
    base = {} if key == "application_id" else {"application_id": "app"}
    environ = {"HOME": "/var/joe"}
    settings = Settings.load({**base, name: value}, environ=environ, directory=tmp_path)
    assert value_of(settings, key) == expected
    (tmp_path / "mustela.yaml").write_text(f"{name}: {value}\n")
    settings = Settings.load(base, environ=environ, directory=tmp_path)
    assert value_of(settings, key) == expected
    if key != "kafka":
        assert settings.source_of(key) == "mustela.yaml:1"


@pytest.mark.parametrize(
    "name",
    [
        *(n for n, a in aliases().items() if a.setting is None),
        "restore.consumer.fetch.min.bytes",
        "topic.retention.ms",
        "client.tag.zone",
        "state.sync_every",
    ],
)
def test_what_means_nothing_here_warns_and_says_why(load, name):
    """The setting is left out, the app runs."""
    with pytest.warns(MustelaSettingWarning, match="has no effect: .+") as caught:
        settings = load(**{name: "1"})
    assert settings.kafka == {}
    assert caught[0].filename == __file__ or "mustela" in caught[0].filename


def test_no_setting_and_no_alias_share_a_name():
    """An alias must not hide a setting."""
    assert not set(aliases()) & set(setting_keys())
    assert {a.setting for a in aliases().values()} - {None} <= set(setting_keys())


def test_a_setting_and_its_alias_in_one_source_must_agree(load):
    """Two names with two values is a mistake that nobody should have to find at night."""
    with pytest.raises(SettingValueError, match="given twice"):
        load("auto_offset_reset: latest\nauto.offset.reset: earliest\n")
    settings = load("auto_offset_reset: latest\nauto.offset.reset: latest\n")
    assert settings.auto_offset_reset == "latest"
    # In two sources the later one wins, whatever the spelling.
    assert load(None, None, **{"auto.offset.reset": "none"}).auto_offset_reset == "none"


LOG_AND_CONTINUE = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"


@pytest.mark.parametrize(
    ("topic", "handler", "expected"),
    [
        ({"errors.dead.letter.queue.topic.name": "bad"}, LOG_AND_CONTINUE, "dead_letter"),
        ({"errors.deadletterqueue.topic.name": "bad"}, LOG_AND_CONTINUE, "dead_letter"),
        ({"errors.dead.letter.queue.topic.name": "bad"}, "LogAndFailExceptionHandler", "fail"),
        ({"errors.dead.letter.queue.topic.name": "bad"}, "continue", "dead_letter"),
        ({"dead_letter_topic": "bad"}, LOG_AND_CONTINUE, "dead_letter"),
        ({}, LOG_AND_CONTINUE, "continue"),
    ],
)
def test_a_named_topic_makes_handlers_that_continue_write_letters(load, topic, handler, expected):
    """In Kafka Streams' words the topic's name is all that has to be said (KIP-1034)."""
    name = "deserialization.exception.handler"
    for one, other in ((topic, {name: handler}), ({name: handler}, topic)):
        file = "".join(f"{key}: {value}\n" for key, value in one.items())
        settings = load(file or None, None, **other)
        assert settings.deserialization_handler == expected
        assert settings.processing_handler == "fail"


def test_handlers_in_our_own_words_mean_what_they_say(load):
    """The topic has a name from the start here, so a name alone says nothing of letters."""
    said = {"dead_letter_topic": "bad", "processing_handler": "continue"}
    assert load(**said).processing_handler == "continue"


ALIAS_ERRORS = [
    ("commit.interval.ms", "100ms"),
    ("statestore.cache.max.bytes", "much"),
    ("deserialization.exception.handler", "com.example.Mine"),
    ("default.dsl.store", "oracle"),
]


@pytest.mark.parametrize(("name", "value"), ALIAS_ERRORS)
def test_a_wrong_value_under_another_name_is_named_as_written(load, name, value):
    """The user looks for what they wrote."""
    with pytest.raises(SettingValueError, match=name.replace(".", r"\.")) as caught:
        load(**{name: value})
    assert caught.value.evidence["allowed"]


def test_spark_properties_are_free(load):
    """Nested, dotted, whole or from the environment: the names that Spark knows come out."""
    yaml = (
        "spark:\n  master: local[2]\n  sql:\n    shuffle.partitions: 3\n  spark.ui.enabled: false\n"
    )
    environ = {
        "MUSTELA__SPARK__EXECUTOR_MEMORY": "2g",
        "MUSTELA__SPARK__SPARK_DRIVER_MAXRESULTSIZE": "1g",
        "mustela__spark__driver_bindAddress": "127.0.0.1",
        "MUSTELA__SPARK__my_ownProperty": "x",
    }
    settings = load(yaml, environ, spark={"spark.master": "local[4]"})
    assert settings.spark == {
        "spark.master": "local[4]",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "2g",
        "spark.driver.maxResultSize": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.my.ownProperty": "x",
    }
    assert settings.source_of("spark.master") == "code"
    assert settings.source_of("spark.sql.shuffle.partitions") == "mustela.yaml:4"
    with pytest.raises(SettingValueError, match=r"spark\.master"):
        load(spark={"master": object()})


def test_the_environment_is_case_insensitive(load):
    """As environment variables are on other systems."""
    for name in ("MUSTELA__KAFKA__SECURITY_PROTOCOL", "Mustela__Kafka__security_Protocol"):
        assert load(None, {name: "ssl"}).kafka == {"security.protocol": "ssl"}
    assert load(None, {"mustela__epoch__max_records": "5"}).epoch.max_records == 5


def test_settings_are_frozen_and_survive_pickle(load):
    """They travel with the plan."""
    settings = load(lanes=3)
    with pytest.raises(ValidationError):
        settings.lanes = 4
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert copy.source_of("lanes") == "code"


def test_the_state_directory_is_the_users_own(tmp_path):
    """XDG_STATE_HOME when it is absolute, as the specification says; ~ is expanded."""
    assert default_state_dir({"XDG_STATE_HOME": "/x"}) == Path("/x/mustela")
    assert default_state_dir({"XDG_STATE_HOME": "x", "HOME": "/h a"}) == Path(
        "/h a/.local/state/mustela"
    )
    settings = Settings.load(application_id="a", state_dir="~/here", environ={}, directory=tmp_path)
    assert settings.state_dir == Path.home() / "here"


def test_every_error_is_a_usage_error():
    """All of them happen before anything runs."""
    for cls in (UnknownSettingError, SettingValueError, SettingsFileError):
        assert issubclass(cls, UsageError)


def test_nothing_warns_by_itself(load):
    """A clean file is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("lanes: 1\n")
