"""Plans and settings that tests of the runtime share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import TopicDescription
from mustela.dsl.builder import StreamsBuilder
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.gate.adopt import adopted
from mustela.runtime.gate.differences import BrokerFacts, ProgramFacts
from mustela.runtime.gate.gate import Examination
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.source_offsets import SourceOffsets
from mustela.runtime.time.watermark import PartitionTime, WatermarkOptions, WatermarkState

GROUPS = 4


def word_count_plan() -> Plan:
    """Count words: one store, one sink."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    words.count(store="counts").to_stream().to("counts", key=str, value=int)
    return plan(builder.build())


def settings_for(directory: Path, **code: Any) -> Settings:
    """Settings of an application, away from this machine's own."""
    given = {"application_id": "app", "key_groups": GROUPS, **code}
    return Settings.load(given, environ={"HOME": str(directory)}, directory=directory)


def some_state(plan: Plan, *, epoch: int = 3) -> CommittedState:
    """The state after some epochs over two partitions of ``lines``."""
    places = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
    state = CommittedState(
        plan=plan,
        key_groups=GROUPS,
        lanes=2,
        incarnation=2,
        epoch=epoch,
        attempt=1,
        sources=SourceOffsets({places[0]: 10, places[1]: 20}),
        watermark=WatermarkState(
            WatermarkOptions(), 500, {places[0]: PartitionTime(700, 1_000, False)}
        ),
        topic_ids={"lines": "id-1"},
        mirrored_ms=77,
        life="life",
        event_time="watermark",
    )
    state.changelog_ends["counts"] = [5, 0, 7, 0]
    return state


def begun_from(plan: Plan, record: EpochRecord | None, *, lanes: int = 1) -> CommittedState:
    """What a run begins with behind a record, where all topics are as it says."""
    ids = record.topic_ids if record else {}
    topics = {
        topic: TopicDescription(
            name=topic, topic_id=ids.get(topic, "id-1"), partitions=3, replication_factor=1
        )
        for topic in plan.topics
    }
    program = ProgramFacts(
        application_id="app", plan=plan, key_groups=GROUPS, event_time="watermark"
    )
    broker = BrokerFacts(topics=topics, starts={}, ends={}, group={})
    seen = Examination(record=record, program=program, broker=broker)
    return adopted(seen, lanes=lanes, options=WatermarkOptions(), new_id=lambda: "new-life")
