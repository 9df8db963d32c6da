"""The snapshots of the read model, which are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mustela.model import TopicPartition
from mustela.runtime.time.watermark import WatermarkState

__all__ = [
    "LATENCY_BOUNDS_S",
    "EpochTrace",
    "Fault",
    "Histogram",
    "Life",
    "RestoreProgress",
    "SourcesView",
    "Totals",
    "WorkerView",
    "lag_of",
]

LATENCY_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets for durations, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The application's state and its history.

    Attributes:
        state: The value of its `AppState`.
        since_ms: Wall-clock time at which it entered this state, in milliseconds.
        since: The same on the monotonic clock, in seconds.
        history: Earlier states, oldest first, each with its wall-clock time in milliseconds.
    """

    state: str
    since_ms: int
    since: float
    history: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTrace:
    """One attempt of an epoch, phase by phase.

    Attributes:
        incarnation: Number of the run.
        epoch: Number of the epoch, also while it is being chosen.
        attempt: Number of the attempt.
        began_ms: Wall-clock time at which its choice began, in milliseconds.
        marks: The phases in order, each with the monotonic time at which it began, in seconds.
        ended: Monotonic time of its end; None while it is in flight.
        outcome: ``committed``, ``given up`` or ``nothing to commit``; empty while in flight.
        records: Source records that it read, if it was committed.
    """

    incarnation: int
    epoch: int
    attempt: int
    began_ms: int
    marks: tuple[tuple[str, float], ...]
    ended: float | None = None
    outcome: str = ""
    records: int = 0

    @property
    def phase(self) -> str:
        """The current phase, or the last one."""
        return self.marks[-1][0]

    def seconds(self, now: float) -> tuple[tuple[str, float], ...]:
        """Return how long each phase took, or has taken so far.

        Args:
            now: The monotonic time, in seconds.

        Example:
            >>> trace = EpochTrace(incarnation=1, epoch=7, attempt=0, began_ms=0,
            ...     marks=(("choosing", 1.0), ("running", 1.5)))
            >>> trace.phase, trace.seconds(4.0)
            ('running', (('choosing', 0.5), ('running', 2.5)))
        """
        ends = [*(at for _, at in self.marks[1:]), now if self.ended is None else self.ended]
        return tuple(
            (name, max(0.0, end - at)) for (name, at), end in zip(self.marks, ends, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesView:
    """The read positions of the sources, and event time.

    Attributes:
        seen_ms: Wall-clock time of this view, in milliseconds.
        incarnation: Number of the run.
        epoch: Number of the last committed epoch.
        next_offsets: The next offset of each source partition.
        ends: The end of each of them at the last look.
        watermark: Event time of all partitions, in milliseconds.
        held: Partitions that hold the watermark because their records cannot be read yet.
        changelog_ends: By store, the changelog end of each key group.
        topics: Index of each source topic in the running plan.
        lanes: Number of lanes.
        key_groups: Number of key groups.
    """

    seen_ms: int
    incarnation: int
    epoch: int
    next_offsets: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    watermark: WatermarkState
    held: frozenset[TopicPartition] = frozenset()
    changelog_ends: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])
    topics: Mapping[str, int] = field(default_factory=dict[str, int])
    lanes: int = 0
    key_groups: int = 0

    @property
    def lag(self) -> int | None:
        """How many source offsets are waiting; None until the end of each partition is known."""
        lags = [lag_of(self, place) for place in self.next_offsets]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None


def lag_of(view: SourcesView, place: TopicPartition) -> int | None:
    """Return how many offsets of a partition are waiting, or None if not known yet."""
    end = view.ends.get(place)
    return None if end is None else max(0, end - view.next_offsets[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProgress:
    """The progress of a restore.

    Attributes:
        done: Number of key groups that are up to date.
        groups: Number of all key groups.
        records: Changelog records read so far, by store.
        since: Monotonic time of the last progress, in seconds.
    """

    done: int
    groups: int
    records: Mapping[str, int]
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that failed and was tried again.

    Attributes:
        time_ms: Wall-clock time, in milliseconds.
        code: The error's code, or its class.
        what: Its first line, without secrets.
    """

    time_ms: int
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations counted in buckets.

    Attributes:
        counts: How many fell in each class, and above them all.
        total_s: The sum of all, in seconds.
        bounds: The upper ends of the classes, in seconds.

    Example:
        >>> seen = Histogram().plus(0.02).plus(100.0)
        >>> seen.count, seen.total_s
        (2, 100.02)
        >>> seen.up_to()[2], seen.up_to()[-1]
        ((0.025, 1), (inf, 2))
    """

    counts: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS_S) + 1)
    total_s: float = 0.0
    bounds: tuple[float, ...] = LATENCY_BOUNDS_S

    @classmethod
    def of(cls, bounds: tuple[float, ...]) -> Histogram:
        """Return an empty one with other classes."""
        return cls((0,) * (len(bounds) + 1), 0.0, bounds)

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def plus(self, seconds: float) -> Histogram:
        """Return the histogram with one more duration."""
        counts = list(self.counts)
        counts[sum(bound < seconds for bound in self.bounds)] += 1
        return Histogram(tuple(counts), self.total_s + seconds, self.bounds)

    def up_to(self) -> list[tuple[float, int]]:
        """Return, for each upper bound, how many durations did not exceed it."""
        seen, found = 0, list[tuple[float, int]]()
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            found.append((bound, seen))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The counters since this process started the application.

    Attributes:
        epochs: By outcome, the number of ended attempts of epochs.
        records: Source records that were read and committed.
        counters: Counts by name, from the tasks of epochs.
        busy_s: By stage and task, how long it worked, in seconds.
        phases: By phase of an epoch, how long it took.
        epoch_s: How long committed epochs took, from their choice to the end of their commit.
        commit_s: How long their transactions took.
        faults: By code, how often something failed and was tried again.
    """

    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    records: int = 0
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    busy_s: Mapping[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    phases: Mapping[str, Histogram] = field(default_factory=dict[str, Histogram])
    epoch_s: Histogram = Histogram()
    commit_s: Histogram = Histogram()
    faults: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """What a worker process is doing.

    Attributes:
        pid: The process.
        activity: ``rest``, ``read``, ``decode`` or ``step``.
        stage: The stage, or -1.
        lane: The task of that stage (after the first stage, the lane), or -1.
        step: The name of the step, or empty.
        seconds: How long it has been doing that.
        record: The record that a user's function is handling, if the worker reported it.
        stack: The stacks of its Python threads, if the worker reported them.
    """

    pid: int
    activity: str
    stage: int
    lane: int
    step: str
    seconds: float
    record: str = ""
    stack: str = ""
