"""What survives a crash in the test driver: topics, changelogs, the epoch record and the disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mustela.kernel.core.output import DeadLetters, SinkRows
from mustela.kernel.wiring import WiredPlan
from mustela.model import Headers
from mustela.plan.epoch import TaskReport
from mustela.plan.plan import Plan, Stage
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.watermark import WatermarkOptions, WatermarkState, topic_options
from mustela.state.interfaces import Committed, EnvironmentSpec, Rows, Token
from mustela.state.memory import MemoryEnvironment
from mustela.testing.global_tables import GlobalTopics
from mustela.testing.row import BrokerRow

__all__ = ["BrokerRow", "JobResult", "MemoryCluster", "Place"]

Place = tuple[int, int]
"""A stage and a key group."""


@dataclass(slots=True)
class JobResult:
    """The output of an epoch's job; none of it counts before the commit.

    Attributes:
        token: The run of the epoch.
        rows: Rows for sinks, in order.
        dead_letters: Records that a handler gave up.
        changes: The writes of each place, except expirations: the rows of its changelogs.
        counters: Counts by name.
        reports: The reports of sources and lanes.
        watermark: Event time after the epoch.
        now_ms: The epoch's wall-clock time.
    """

    token: Token
    watermark: WatermarkState
    now_ms: int = 0
    rows: list[SinkRows] = field(default_factory=list[SinkRows])
    dead_letters: list[DeadLetters] = field(default_factory=list[DeadLetters])
    changes: dict[Place, Mapping[str, Rows]] = field(
        default_factory=dict[Place, Mapping[str, Rows]]
    )
    counters: Counter[str] = field(default_factory=Counter[str])
    reports: list[TaskReport] = field(default_factory=list[TaskReport])


class MemoryCluster:
    """The durable side, which a crash does not change.

    Args:
        plan: The plan.
        application_id: The application.
        key_groups: Number of key groups.
        dead_letter_topic: Where dead letters go.
        watermark: The rules of event time.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        application_id: str,
        key_groups: int,
        dead_letter_topic: str,
        watermark: WatermarkOptions | None = None,
    ) -> None:
        self.wired = WiredPlan(plan)
        self.key_groups = key_groups
        self.dead_letter_topic = dead_letter_topic
        self.inputs: dict[str, list[BrokerRow]] = {topic: [] for topic in plan.topics}
        self.offsets: dict[str, int] = dict.fromkeys(plan.topics, 0)
        self.global_topics = GlobalTopics(plan.global_tables)
        self.topics = {topic: index for index, topic in enumerate(plan.topics)}
        rules = watermark or WatermarkOptions()
        self.watermark = WatermarkState(rules, by_topic=topic_options(plan, rules))
        self.due = DueTimes(plan, key_groups, known=True)
        self.outputs: dict[str, list[BrokerRow]] = {}
        self.changelogs: dict[tuple[str, int], list[tuple[bytes, bytes | None]]] = {}
        self.marks: dict[Place, Committed] = {}
        self.counters: Counter[str] = Counter()
        self.has_ticks_left = False
        self._followed = -1
        self.incarnation = 1
        self.epoch = 0
        self.attempt = 0
        self.environments = {
            (stage.index, group): MemoryEnvironment(
                EnvironmentSpec(
                    application_id=application_id,
                    stage=stage.identity or str(stage.index),
                    group=group,
                    groups=key_groups,
                    stores=stage.stores,
                )
            )
            for stage in plan.stages
            if stage.stores
            for group in range(key_groups)
        }

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.wired.plan

    def add_topic(self, name: str) -> bool:
        """Create a topic; return whether a source reads it, by name or by pattern."""
        plan = self.plan.with_topics([name])
        if plan is not self.plan:
            self.wired = WiredPlan(plan)
        if name not in self.plan.topics:
            return name in self.global_topics
        if name not in self.inputs:
            self.inputs[name], self.offsets[name] = [], 0
            self.topics[name] = self.plan.topics.index(name)
        return True

    def next_token(self) -> Token:
        """Name the next run of the next epoch."""
        self.attempt += 1
        return Token(self.incarnation, self.epoch + 1, self.attempt - 1)

    def restart(self, *, lose_state: bool) -> None:
        """Start a new incarnation from the committed state.

        Args:
            lose_state: Whether the disks are lost too, so that state is restored from the
                changelogs.
        """
        self.incarnation += 1
        self.due = DueTimes(self.plan, self.key_groups, known=not self.marks)
        if lose_state:
            self.global_topics.lose()
        for environment in self.environments.values():
            environment.close(clean=False)
            if lose_state:
                environment.destroy()

    def append_inputs(self, rows: Sequence[BrokerRow]) -> None:
        """Write records to source topics."""
        for row in rows:
            if row.topic in self.inputs:
                self.inputs[row.topic].append(row)
            self.global_topics.append(row)

    def forget_inputs(self, rows: Sequence[BrokerRow]) -> None:
        """Remove the newest records, which no committed epoch has read."""
        for row in reversed(rows):
            self.global_topics.forget(row)
            if row.topic in self.inputs:
                taken = self.inputs[row.topic].pop()
                assert taken == row, row

    def environment(self, place: Place) -> MemoryEnvironment:
        """Return an environment that holds the committed state."""
        environment = self.environments[place]
        committed = self.committed(place)
        condition = environment.condition(committed)
        if condition.ready:
            return environment
        if not condition.catches_up:
            environment.destroy()
        positions = environment.positions()
        for spec in environment.spec.stores:
            if spec.logged:
                log = self.changelogs.get((spec.name, place[1]), [])
                environment.restore(spec.name, log[positions.get(spec.name, 0) :], len(log))
        environment.finish_restore(committed)
        return environment

    def committed(self, place: Place) -> Committed:
        """Return the state of a place after the last epoch that wrote it."""
        return self.marks.get(place, Committed())

    def commit(self, result: JobResult) -> list[BrokerRow]:
        """Commit all of an epoch at once; return its rows."""
        rows = [row for columns in result.rows for row in sink_rows(columns)]
        for letters in result.dead_letters:
            rows += dead_letter_rows(letters, self.dead_letter_topic)
        for row in rows:
            self.outputs.setdefault(row.topic, []).append(row)
        for place, changes in result.changes.items():
            self._log(place, self.plan.stages[place[0]], changes)
            self.marks[place] = Committed(
                token=result.token,
                changelog_ends=self._ends(place, self.plan.stages[place[0]]),
                time_ms=result.now_ms,
            )
        for topic, records in self.inputs.items():
            self.offsets[topic] = len(records)
        self.watermark = result.watermark
        self.due.learn(result.reports, watermark=result.watermark.value, now_ms=result.now_ms)
        self.counters.update(result.counters)
        following = -1 if self.due.scheduled_ms is None else self.due.scheduled_ms
        # Only for schedules: other steps may be due at a time that has passed.
        self.has_ticks_left = self._followed != following >= 0 and following <= result.now_ms
        self._followed = following
        self.epoch = result.token.epoch
        self.attempt = 0
        return rows

    def _log(self, place: Place, stage: Stage, changes: Mapping[str, Rows]) -> None:
        for spec in stage.stores:
            if spec.logged and spec.name in changes:
                log = self.changelogs.setdefault((spec.name, place[1]), [])
                log.extend(changes[spec.name])

    def _ends(self, place: Place, stage: Stage) -> dict[str, int]:
        return {
            spec.name: len(self.changelogs.get((spec.name, place[1]), ()))
            for spec in stage.stores
            if spec.logged
        }


def sink_rows(columns: SinkRows) -> list[BrokerRow]:
    """Turn the columns of a sink into rows."""
    topics = [columns.topic] * len(columns) if isinstance(columns.topic, str) else columns.topic
    headers: list[Headers] = [()] * len(columns) if columns.headers is None else columns.headers
    chosen = [None] * len(columns) if columns.partitions is None else columns.partitions
    partitions = [partition or 0 for partition in chosen]
    steps = [columns.step] * len(columns) if columns.steps is None else columns.steps
    parts = (topics, columns.keys, columns.values, columns.timestamps, headers, partitions, steps)
    return [BrokerRow(*row) for row in zip(*parts, strict=True)]


def dead_letter_rows(letters: DeadLetters, topic: str) -> list[BrokerRow]:
    """Turn the columns of dead letters into rows."""
    parts = (letters.keys, letters.values, letters.timestamps, letters.headers)
    return [BrokerRow(topic, *row) for row in zip(*parts, strict=True)]
