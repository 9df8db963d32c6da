"""Local copies of changelogs on a real broker: which are believed, and which are read anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType as Operation,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry as Entry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource as Resource,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.changelogs import ChangelogRowsLostError
from mustela.connectors.kafka.copies import make_current
from mustela.connectors.kafka.reading_time import RestoreTooSlowError
from mustela.runtime.topics.staleness import stale_ages
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, Token
from tests.integration.kafka_rows import MakeSink
from tests.patience import PATIENCE_S
from tests.unit.spark.test_lives import GROUP, STAGE, program

pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]
pytestmark = pytest.mark.broker

MakeLog = Callable[..., str]


@pytest.fixture
def make_log(admin: KafkaAdmin, request: pytest.FixtureRequest) -> MakeLog:
    """Make the changelog of an application that no other test has; return its name."""

    def make(application: str, **config: str) -> str:
        topic = f"{application}-counts-changelog"
        given = {key.replace("_", "."): value for key, value in config.items()}
        settings = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", **given}
        admin.create([TopicSpec(name=topic, partitions=GROUP + 1, config=settings)])
        return topic

    return make


def rows(process: Process, state: Committed) -> dict[bytes, bytes]:
    environment, _ = make_current(process, STAGE, GROUP, state)
    view = environment.snapshot(state)
    try:
        return dict(view.range("counts", None, None))
    finally:
        view.close()


def keep_deletions(properties: dict[str, Any], topic: str, kept_ms: int) -> None:
    """Let a topic keep deletions for longer, as the error about a slow restore says."""
    entry = Entry("delete.retention.ms", str(kept_ms), incremental_operation=Operation.SET)
    resource = Resource("topic", topic, incremental_configs=[entry])
    client = AdminClient(properties)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


@pytest.mark.parametrize(("kept", "believed"), [("86400000", True), ("0", False)])
def test_a_copy_is_believed_as_long_as_the_topic_keeps_deletions(
    make_log: MakeLog,
    make_sink: MakeSink,
    admin: KafkaAdmin,
    properties: dict[str, Any],
    tmp_path: Path,
    *,
    kept: str,
    believed: bool,
) -> None:
    """What it missed is read on where every deletion must be there still, and else all of it."""
    application = f"copies-{kept}"
    topic = make_log(application, delete_retention_ms=kept)
    sink = make_sink()
    for value in (b"1", b"2"):
        sink.begin()
        sink.produce_tracked(topic, GROUP, [value], [value])
        ends = sink.flush()
        sink.commit()
    ages = stale_ages(admin.configs([topic]))
    made = replace(
        program(tmp_path, "life"),
        application_id=application,
        consumer=properties,
        stale_after_ms=ages,
    )
    process = Process(0, made)
    environment = process.environment(STAGE, GROUP)
    base = Token(1, 1, 0)
    environment.write_pending(base, Committed(), {"counts": [(b"1", b"1"), (b"gone", b"0")]})
    environment.fold(Committed(token=base, changelog_ends={"counts": 1}))
    state = Committed(token=Token(1, 2, 0), changelog_ends={"counts": ends[topic, GROUP]})
    if not believed:
        with pytest.raises(RestoreTooSlowError) as caught:  # no reading is quick enough for that
            rows(process, state)
        process.close()
        keep_deletions(properties, topic, caught.value.fields["needed_ms"] + 60_000)
        ages = stale_ages(admin.configs([topic]))
        process = Process(0, replace(made, stale_after_ms=ages))
    kept_too = {b"gone": b"0"} if believed else {}
    assert rows(process, state) == {**kept_too, b"1": b"1", b"2": b"2"}
    process.close()


def test_rows_that_somebody_deleted_are_not_taken_for_compacted_ones(
    make_log: MakeLog, make_sink: MakeSink, properties: dict[str, Any], tmp_path: Path
) -> None:
    """Compaction leaves the beginning of a log where it is: a later one is a loss."""
    application = "lost"
    topic = make_log(application, cleanup_policy="compact,delete")
    sink = make_sink()
    sink.begin()
    sink.produce_tracked(topic, GROUP, [b"1", b"2"], [b"1", b"2"])
    ends = sink.flush()
    sink.commit()
    client = AdminClient(properties)
    for future in client.delete_records([TopicPartition(topic, GROUP, 1)]).values():
        future.result(PATIENCE_S)
    made = replace(program(tmp_path, "life"), application_id=application, consumer=properties)
    process = Process(0, made)
    state = Committed(token=Token(1, 2, 0), changelog_ends={"counts": ends[topic, GROUP]})
    with pytest.raises(ChangelogRowsLostError, match="rows of store 'counts' are lost") as caught:
        rows(process, state)
    assert caught.value.fields == {"store": "counts", "position": 0, "earliest": 1}
    environment = process.environment(STAGE, GROUP)
    environment.restore("counts", [(b"1", b"1")], 1)  # a host that has them reads on
    assert rows(process, state) == {b"1": b"1", b"2": b"2"}
    process.close()
