"""What a start reads from Kafka: topics, the last epoch record, and start offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from mustela.config.settings import Settings
from mustela.config.units import reset_duration_ms
from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.truncation import LogPosition
from mustela.errors import UsageError
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.epochs import refuse_gone
from mustela.runtime.commit.epochs_watch import EpochsWatch
from mustela.runtime.gate.adopt import adopted
from mustela.runtime.gate.answers import refuse, told
from mustela.runtime.gate.differences import Difference, Kind, expired, unchanged
from mustela.runtime.gate.gate import Gate
from mustela.runtime.ports import World
from mustela.runtime.start.unlogged import UnloggedStores
from mustela.runtime.time.watermark import steady_ms, topic_options, watermark_options
from mustela.runtime.topics.application_topics import ensure_topics, internal_topics, sink_topics
from mustela.runtime.topics.found_topics import with_found
from mustela.runtime.topics.lagging import describe_all
from mustela.runtime.topics.log_formats import askable_leaders
from mustela.runtime.topics.staleness import stale_ages

__all__ = ["NoStartOffsetError", "Recovery"]


class NoStartOffsetError(UsageError):
    """A source has no recorded offset, and ``auto_offset_reset`` is ``none``."""

    code = "NO_START_OFFSET"


class Recovery:
    """Reads what the last run left, and refuses to continue if it does not fit.

    Args:
        settings: The settings.
        plan: The plan to run.
        world: Kafka, and the wall clock.
        say: Called with reports of differences that do not stop the application.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        world: World,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._cluster = world.cluster
        self._gate = Gate(settings, world)
        self._epochs = EpochsWatch(settings.application_id, world)
        self._new_id = world.new_id
        self._say = say
        self._clock = world.clock
        self._partitions: Mapping[str, int] = {}
        self._is_told_of_weak = False
        self._has_new_stores = False
        self._key_groups: int | None = settings.key_groups
        self.cluster_id = ""
        self.unlogged = UnloggedStores(plan, say)

    def ensure_topics(self) -> None:
        """Check all topics and create the internal ones."""
        self.cluster_id = self._cluster.cluster_id()
        self._partitions = ensure_topics(
            self._cluster, self._settings, self._plan, self._clock, key_groups=self.key_groups
        )

    def tell_of_weak_topics(self) -> None:
        """Report once which internal topics can lose committed records."""
        if not self._is_told_of_weak:
            for text in self._cluster.weak_topics(internal_topics(self._settings, self._plan)):
                self._say(text)
            self._is_told_of_weak = True

    def stale_after_ms(self) -> dict[str, int]:
        """Return, by topic, the age above which a local copy of it is too old."""
        topics = [table.topic for table in self._plan.global_tables]
        for _, store in self._plan.stores.values():
            if store.logged:
                topics.append(changelog_topic(self._settings.application_id, store.log_name))
        return stale_ages(self._cluster.configs(topics))

    @property
    def key_groups(self) -> int:
        """How many key groups the application has; the gate looks at what there is of it."""
        if self._key_groups is None:
            self._key_groups = self._gate.look(self._plan).program.key_groups
        return self._key_groups

    @property
    def widest_source(self) -> int:
        """The number of partitions of the widest source topic, used for new topics."""
        return max(self._partitions.values(), default=1)

    def examine(self) -> None:
        """Check that record, broker and program fit, before anything is started or written.

        Raises:
            MustelaError: If they do not.
        """
        seen = self._gate.look(self._plan)
        seen.decide(lambda _text: None)
        self._key_groups = seen.program.key_groups

    def sink_partitions(self) -> dict[str, int]:
        """Return the partition count of each sink topic that exists."""
        known = describe_all(self._cluster, self._clock, sink_topics(self._plan))
        return {topic: described.partitions for topic, described in known.items()}

    def read_state(self, *, lanes: int) -> CommittedState:
        """Return the committed state, with a start offset for every live partition.

        Call it only when older instances are fenced.

        Raises:
            MustelaError: If record, broker and program do not fit; see `gate`.
        """
        seen = self._gate.look(self._plan)
        seen.decide(self._say)
        self._key_groups = seen.program.key_groups
        self.unlogged.begin(seen.record)
        self._plan = seen.program.plan
        there, may_go = seen.broker.topics, set(self._plan.found_topics)
        for topic in self._plan.topics:
            if topic not in there and topic not in may_go:
                raise self._cluster.missing_topic(topic, use="source")
        self._partitions = {
            topic: there[topic].partitions for topic in self._plan.topics if topic in there
        }
        state = adopted(
            seen, lanes=lanes, options=watermark_options(self._settings), new_id=self._new_id
        )
        known = seen.record.stores if seen.record else {}
        self._has_new_stores = not self._plan.log_names.keys() <= known.keys()
        then = seen.record.topic_ids if seen.record else {}
        is_whole = seen.record is not None and bool(seen.record.fingerprint)
        self._start_offsets(state, known=unchanged(then, state.topic_ids), is_whole=is_whole)
        return state

    def next_claim(self, *, lanes: int) -> CommittedState:
        """Return the committed state under the incarnation of the next run: what its claim says.

        Call it only when older instances are fenced.
        """
        before = self.read_state(lanes=lanes)
        state = before.claimed_by(before.incarnation + 1)
        state.watermark.by_topic = topic_options(state.plan, state.watermark.options)
        return state

    def claimed(self, state: CommittedState) -> None:
        """Check what can only be checked when the claim is committed.

        Learn the id of the epochs topic that holds it, if no run has recorded it yet; and check
        that no application started at the same time has claimed a changelog of the same name: one
        of the two checks after the other's claim.

        Raises:
            ChangelogSharedError: If one has.
        """
        self._epochs.claimed(state)
        if self._has_new_stores:
            self._gate.refuse_shared(self._plan)

    def add_new_partitions(self, state: CommittedState) -> None:
        """Start reading new partitions of known topics, and new topics that match a pattern.

        New partitions are read from their start, new topics as ``auto_offset_reset`` says. With new
        topics, ``state`` gets another plan. A topic that matched a pattern may disappear, and is
        dormant until it returns: an answer without it is no reason to forget it.
        """
        before = dict(state.topic_ids)
        if self._plan.has_patterns:
            there = self._cluster.topics()
            self._plan = state.plan = with_found(self._plan, self._settings, (), there)
        internal = internal_topics(self._settings, self._plan)
        may_go = set(self._plan.found_topics)
        wanted = {*internal, *self._plan.topics} - (may_go - (before.keys() - state.dormant.keys()))
        described = describe_all(self._cluster, self._clock, wanted, maybe=may_go)
        refuse_gone(self._settings.application_id, internal.keys() - described.keys())
        self._look_at_epochs(state, described[self._epochs.topic])
        for topic in self._plan.topics:
            if topic in described:
                self._see(state, topic, described[topic].topic_id, may_go=topic in may_go)
            elif topic not in may_go:
                raise self._cluster.missing_topic(topic, use="source")
            elif topic in state.topic_ids and topic not in state.dormant:
                state.let_rest(topic)
        self._partitions = {
            topic: found.partitions for topic, found in described.items() if topic not in internal
        }
        self._start_offsets(state, known=unchanged(before, state.topic_ids), is_whole=True)

    def refuse_recreated(
        self,
        state: CommittedState,
        places: Iterable[TopicPartition],
        beside: Collection[str] = (),
    ) -> dict[str, TopicDescription]:
        """Check that the topics just read, and the epochs topic, were not recreated.

        A missing topic is not judged: what was read of it was read before it was deleted.

        Args:
            state: The state with their known ids.
            places: What was read.
            beside: More topics to describe in the same request.

        Returns:
            The descriptions of those.

        Raises:
            SourceTopicRecreatedError: If one was recreated.
            EpochsTopicGoneError: If the epochs topic was.
        """
        read = {place.topic for place in places}
        described = self._cluster.describe({*read, *beside, self._epochs.topic})
        self._look_at_epochs(state, described.get(self._epochs.topic))
        for topic in read & described.keys():
            now = described[topic].topic_id
            then = state.topic_ids.get(topic, now)
            if now != then:
                self._differs(Kind.SOURCE_RECREATED, topic, then, now)
        return {topic: described[topic] for topic in beside if topic in described}

    def _look_at_epochs(self, state: CommittedState, found: TopicDescription | None) -> None:
        self._epochs.see(state, found)
        self._epochs.learn(state, found)

    def _see(self, state: CommittedState, topic: str, now: str, *, may_go: bool) -> None:
        """Record that a topic exists, with its current id."""
        then = state.topic_ids.get(topic, now)
        if now == then:
            state.wake(topic, steady_ms(self._clock))
        elif may_go and topic in state.dormant:
            state.forget(topic)
            self._differs(Kind.SOURCE_REPLACED, topic, then, now)
        else:
            self._differs(Kind.SOURCE_RECREATED, topic, then, now)
        state.topic_ids[topic] = now

    def _differs(self, kind: Kind, topic: str, then: str, now: str) -> None:
        """Report that a topic was recreated, or stop because of it.

        Raises:
            SourceTopicRecreatedError: If the topic must not be recreated.
        """
        name = self._settings.application_id
        difference = Difference(kind=kind, subject=topic, then=then, now=now)
        refuse([difference], name)
        self._say(told(difference, name))

    def _start_offsets(self, state: CommittedState, known: set[str], *, is_whole: bool) -> None:
        """Give every live partition without a recorded offset a start.

        Args:
            state: The committed state.
            known: Topics that were read and not recreated.
            is_whole: Whether the state has all partitions that existed when it was written.
        """
        places = [
            TopicPartition(topic, partition)
            for topic, partitions in self._partitions.items()
            for partition in range(partitions)
        ]
        new = [place for place in places if place not in state.sources.next_offsets]
        if not new:
            return
        resets = self._resets()
        earliest = [p for p in new if p.topic in known or resets[p.topic] == "earliest"]
        others = [p for p in new if p.topic not in known]
        latest = [p for p in others if resets[p.topic] == "latest"]
        refused = [p for p in others if resets[p.topic] == "none"]
        since = {p: ms for p in others if (ms := reset_duration_ms(resets[p.topic])) is not None}
        if refused:
            msg = f"no recorded offset for {refused[0].topic}-{refused[0].partition}"
            raise NoStartOffsetError(
                msg,
                why="auto_offset_reset is none",
                fix="set auto_offset_reset to earliest, latest or by_duration:<duration>",
            )
        starts = self._cluster.earliest_offsets(earliest)
        if is_whole:
            self._refuse_expired({p: at for p, at in starts.items() if p.topic in known})
        if since:
            starts.update(self._since(since))
        self._begin_at(state, starts, latest)

    def _begin_at(
        self,
        state: CommittedState,
        starts: Mapping[TopicPartition, int],
        latest: Collection[TopicPartition],
    ) -> None:
        """Begin at offsets, or at ends, and record a leader epoch in which each log reached them.

        Without one, a log that is truncated before anything was read, and grows past the offset
        again, would be read from the middle of other records. Nothing can be lost before offset 0.

        Args:
            state: The committed state.
            starts: The start offsets of partitions.
            latest: Partitions that begin at their end.
        """
        asked = [*(place for place, at in starts.items() if at > 0), *latest]
        # Requested after the offsets: under that leader the log had all of them.
        ends = self._cluster.log_ends(asked) if asked else {}
        offsets = {**starts, **{place: ends[place].offset for place in latest}}
        leaders = {p: end.leader_epoch for p, end in ends.items() if 0 < offsets[p] <= end.offset}
        leaders = askable_leaders(self._cluster, leaders)
        for place, at in offsets.items():
            state.sources.put(place, LogPosition(at, leaders.get(place, -1)))

    def _refuse_expired(self, added: Mapping[TopicPartition, int]) -> None:
        """Check that partitions added since the last look have lost no records.

        Raises:
            SourceExpiredError: If one no longer holds its first record.
        """
        lost = [expired(place, None, first) for place, first in sorted(added.items()) if first > 0]
        refuse(lost, self._settings.application_id)

    def _since(self, spans: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first record not older than a time span, or the end."""
        now = self._clock.now_ms()
        found = self._cluster.offsets_for_times(
            {place: max(0, now - span) for place, span in spans.items()}
        )
        offsets = {place: offset for place, offset in found.items() if offset is not None}
        offsets.update(
            self._cluster.end_offsets([place for place in spans if place not in offsets])
        )
        return offsets

    def _resets(self) -> dict[str, str]:
        resets = dict.fromkeys(self._plan.topics, self._settings.auto_offset_reset)
        for source in self._plan.stages[0].sources:
            if source.auto_offset_reset is not None:
                for topic in source.topics:
                    resets[topic] = source.auto_offset_reset  # type: ignore[assignment]
        return resets  # type: ignore[return-value]
