"""Which topics must be there, which are made, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import Consumed
from mustela.calls import AsyncOptions, RequestReply
from mustela.clock import ManualClock
from mustela.connectors.kafka.admin import MissingTopicError, TopicDescription
from mustela.connectors.kafka.topic_checks import (
    InternalTopicError,
    check_config,
    check_partitions,
)
from mustela.dsl.builder import StreamsBuilder
from mustela.planner.planner import plan
from mustela.runtime.lease import lease_spec
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.topics.application_topics import (
    changelog_config,
    ensure_topics,
    internal_topics,
    sink_topics,
)
from mustela.state.interfaces import StoreSpec
from mustela.windows import LatePolicy
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import GROUPS, settings_for, word_count_plan

PLAN = word_count_plan()


def ensure(admin: FakeAdmin, directory: Path, **code: Any) -> dict[str, int]:
    cluster: Any = admin
    settings = settings_for(directory, **code)
    return dict(ensure_topics(cluster, settings, PLAN, ManualClock(), key_groups=GROUPS))


def test_internal_topics_are_made_as_the_protocol_needs_them(tmp_path: Path) -> None:
    """One compacted partition for epochs, one partition of the changelog for each key group."""
    admin = FakeAdmin({"lines": 3, "counts": 5})
    assert ensure(admin, tmp_path, replication_factor=2) == {"lines": 3}
    epochs, changelog = admin.created
    assert (epochs.name, epochs.partitions) == ("app-epochs", 1)
    assert epochs.config["cleanup.policy"] == "compact"
    assert (changelog.name, changelog.partitions) == ("app-counts-changelog", GROUPS)
    assert changelog.config == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "-1",
        "segment.bytes": str(50 << 20),
    }
    assert {spec.replication_factor for spec in admin.created} == {2}


def test_internal_topics_that_exist_are_checked_and_not_made(tmp_path: Path) -> None:
    """The admin refuses those with other partitions or policy."""
    admin = FakeAdmin({"lines": 1, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS})
    ensure(admin, tmp_path)
    assert not admin.created
    assert {spec.name for spec in admin.checked} == {"app-epochs", "app-counts-changelog"}


def test_a_missing_source_is_an_error_that_names_the_users_line(tmp_path: Path) -> None:
    """Nothing is made before everything was checked."""
    admin = FakeAdmin({"counts": 1})
    with pytest.raises(MissingTopicError, match="source topic 'lines'") as caught:
        ensure(admin, tmp_path)
    assert "builder.stream" in str(caught.value.at)
    assert not admin.created


def test_a_missing_sink_is_an_error_unless_topics_may_be_created(tmp_path: Path) -> None:
    """A sink that is made gets as many partitions as the widest source."""
    admin = FakeAdmin({"lines": 3})
    with pytest.raises(MissingTopicError, match="sink topic 'counts'") as caught:
        ensure(admin, tmp_path)
    assert ".to(" in str(caught.value.at)
    assert not admin.created
    ensure(admin, tmp_path, topics={"create": True})
    assert [(s.name, s.partitions) for s in admin.created if s.name == "counts"] == [("counts", 3)]


def test_all_missing_topics_are_named_at_once(tmp_path: Path) -> None:
    """Sources, global tables and sinks, each with its line and what makes it; nothing is made."""
    builder = StreamsBuilder()
    prices = builder.global_table("prices", key=str, value=str)
    lines = builder.stream("lines", key=str, value=str)
    joined = lines.join(prices, str.__add__, foreign_key_with_key=lambda key, _: key, name="joined")
    joined.to("out", value=str)
    made, admin = plan(builder.build()), FakeAdmin({})
    with pytest.raises(MissingTopicError) as caught:
        ensure_topics(admin, settings_for(tmp_path), made, ManualClock(), key_groups=GROUPS)  # pyright: ignore[reportArgumentType]
    error = caught.value
    assert sorted(error.fields["topics"]) == ["lines", "out", "prices"]
    text = str(error)
    for topic in ("lines", "out", "prices"):
        assert f"mustela topics create {topic} " in text
    assert "builder.stream(" in text
    assert 'joined.to("out"' in text
    assert not admin.created


def test_a_topic_that_one_broker_does_not_know_yet_is_asked_for_again(tmp_path: Path) -> None:
    """It was made a moment before the start."""

    class Lagging(FakeAdmin):
        """Knows the source from the third answer on."""

        answers = 0

        def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
            self.answers += 1
            found = super().describe(topics)
            return {name: one for name, one in found.items() if self.answers > 2 or name != "lines"}

    assert ensure(Lagging({"lines": 3, "counts": 1}), tmp_path) == {"lines": 3}


def test_the_dead_letter_topic_is_made_when_a_handler_writes_to_it(tmp_path: Path) -> None:
    """And only then."""
    admin = FakeAdmin({"lines": 2, "counts": 1})
    ensure(admin, tmp_path)
    assert "app-dead-letters" not in admin.partitions
    ensure(admin, tmp_path, processing_handler="dead_letter")
    assert admin.partitions["app-dead-letters"] == 2


def _late(builder: StreamsBuilder) -> None:
    builder.stream("lines", key=str, value=str, consumed=Consumed(late=LatePolicy.DEAD_LETTER))


def _late_by_pattern(builder: StreamsBuilder) -> None:
    late = Consumed[str, str](late=LatePolicy.DEAD_LETTER)
    builder.stream(re.compile("none-.*"), key=str, value=str, consumed=late)


def _calls(builder: StreamsBuilder) -> None:
    options = AsyncOptions(on_failure="dead_letter")
    calls = builder.stream("lines", key=str, value=str).map_values_async(str.upper, options=options)
    calls.to("out", value=str)


def _asks(builder: StreamsBuilder) -> None:
    asking = RequestReply(
        topic="asked", timeout=timedelta(seconds=1), on_timeout="dead_letter", value=str
    )
    lines = builder.stream("lines", key=str, value=str)
    replies = builder.stream("replies", key=str, value=str)
    lines.request_reply(replies, str.__add__, asking).to("out", value=str)


@pytest.mark.parametrize("step", [_late, _late_by_pattern, _calls, _asks])
def test_the_dead_letter_topic_is_made_when_a_step_writes_to_it(
    tmp_path: Path, step: Callable[[StreamsBuilder], None]
) -> None:
    """Whatever the handlers say: without it the first letter would end each run anew."""
    builder = StreamsBuilder()
    step(builder)
    builder.stream("more", key=str, value=str).to("out")
    admin = FakeAdmin({"lines": 2, "more": 1, "out": 1, "replies": 1, "asked": 1})
    made = plan(builder.build())
    ensure_topics(admin, settings_for(tmp_path), made, ManualClock(), key_groups=GROUPS)  # pyright: ignore[reportArgumentType]
    assert "app-dead-letters" in admin.partitions


def test_a_store_that_is_not_logged_has_no_changelog(tmp_path: Path) -> None:
    """Its topic would stay empty for ever."""
    builder = StreamsBuilder()
    builder.stream("lines", key=str, value=str).to("out")
    bare = plan(builder.build())
    assert list(internal_topics(settings_for(tmp_path), bare)) == ["app-epochs"]


def test_a_store_with_retention_lets_the_broker_delete_a_day_after_it() -> None:
    """Old windows leave the changelog too; the user's settings for the topic win."""
    config = changelog_config(
        StoreSpec(name="w", kind="window", retention_ms=1_000, topic_config={"segment.bytes": "5"})
    )
    assert config["cleanup.policy"] == "compact,delete"
    assert config["retention.ms"] == str(86_400_000 + 1_000)
    assert config["segment.bytes"] == "5"


@pytest.mark.parametrize(
    "spec",
    [
        StoreSpec(name="j", kind="list", retention_ms=1_000, segment_ms=10),
        StoreSpec(name="v", kind="versioned", history_retention_ms=1_000),
        StoreSpec(name="b", kind="buffer"),
        StoreSpec(name="t", kind="timer"),
        StoreSpec(name="w", kind="window"),
        StoreSpec(name="s", kind="session", retention_ms=1_000),
    ],
)
def test_a_store_that_deletes_by_itself_keeps_its_changelog_for_ever(spec: StoreSpec) -> None:
    """What waits must survive however long nothing comes: the log is compacted only."""
    config = changelog_config(spec)
    assert config["cleanup.policy"] == "compact"
    assert config["retention.ms"] == "-1"
    assert "min.compaction.lag.ms" not in config


def test_sinks_whose_topic_a_function_names_need_no_topic_at_the_start() -> None:
    """Nobody knows yet which one it will be."""
    builder = StreamsBuilder()
    stream = builder.stream("lines", key=str, value=str)
    stream.to(lambda _key, value, _context: value)
    stream.to("named")
    assert list(sink_topics(plan(builder.build()))) == ["named"]


def test_internal_topics_that_can_lose_what_was_committed_are_told_once(tmp_path: Path) -> None:
    """By an unclean election, or with their only broker; not where there is one broker anyway."""
    unclean = {"unclean.leader.election.enable": "true"}
    changelog = "app-counts-changelog"
    admin = FakeAdmin(
        {"lines": 1, "counts": 1}, settings={changelog: unclean, "lines": unclean}, brokers=3
    )
    said: list[str] = []
    world = world_of(admin, clock=ManualClock())
    recovery = Recovery(settings_for(tmp_path), PLAN, world, said.append)
    recovery.ensure_topics()
    recovery.tell_of_weak_topics()
    election, replicas = said
    assert f"when a broker fails: {changelog}; set it to false: mustela kafka-configs " in election
    assert (
        f"--entity-name {changelog} --add-config unclean.leader.election.enable=false" in election
    )
    assert "on a cluster of 3 brokers" in replicas
    assert f"{changelog}, app-epochs; " in replicas
    assert "lines" not in election + replicas
    recovery.tell_of_weak_topics()
    assert len(said) == 2


def test_nothing_is_said_of_one_broker_with_the_settings_of_kafka(tmp_path: Path) -> None:
    """A development broker has one replica of everything."""
    admin, said = FakeAdmin({"lines": 1, "counts": 1}), list[str]()
    settings = settings_for(tmp_path)
    recovery = Recovery(settings, PLAN, world_of(admin, clock=ManualClock()), said.append)
    recovery.ensure_topics()
    recovery.tell_of_weak_topics()
    assert not said


def test_an_internal_topic_that_differs_names_the_application_to_clear(tmp_path: Path) -> None:
    """The command of the advice is one to copy."""
    spec = internal_topics(settings_for(tmp_path), PLAN)["app-epochs"]
    there = FakeAdmin({"app-epochs": 5}).describe(["app-epochs"])["app-epochs"]
    with pytest.raises(InternalTopicError, match="5 partitions, not 1") as caught:
        check_partitions(spec, there)
    assert str(caught.value.fix).endswith("mustela reset app")


def test_the_broker_sets_the_time_of_new_internal_topics(tmp_path: Path) -> None:
    """A record of a clock that is far ahead would be refused; topics that are there may stay."""
    specs = [*internal_topics(settings_for(tmp_path), PLAN).values(), lease_spec("app", 1)]
    for spec in specs:
        made = {**spec.config, **spec.created_with}
        assert made["message.timestamp.type"] == "LogAppendTime", spec.name
    (epochs,) = (spec for spec in specs if spec.name == "app-epochs")
    check_config(epochs, {**epochs.config, "message.timestamp.type": "CreateTime"})
