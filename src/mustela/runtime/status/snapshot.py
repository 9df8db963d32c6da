"""The snapshots of the read model: each is made whole, and never changed afterwards."""

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
"""Upper ends of the classes that durations are counted in, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Where the application is in its life.

    Attributes:
        state: The value of its `AppState`.
        since_ms: Wall-clock time at which it came there.
        since: The same on the monotonic clock, in seconds.
        history: States before it, the oldest first, each with its wall-clock time.
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
        epoch: Number of the epoch; that of the next one while it is chosen.
        attempt: Number of the attempt.
        began_ms: Wall-clock time at which its choice began.
        marks: The phases in order, each with the monotonic time at which it began, in seconds.
        ended: Monotonic time of its end; None while it is in flight.
        outcome: ``committed``, ``given up`` or ``nothing to commit``; empty while in flight.
        records: Source records that it read, where it was committed.
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
        """The phase that it is in, or was in last."""
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
    """What is read of the sources, and how far event time is.

    Attributes:
        seen_ms: Wall-clock time of this view.
        incarnation: Number of the run.
        epoch: Number of the last committed epoch.
        next_offsets: The next offset of each source partition.
        ends: Where each of them ended at the last look.
        watermark: Event time of all partitions.
        held: Partitions that hold the watermark because their records cannot be read yet.
        changelog_ends: By store, the changelog end of each key group.
        topics: Index of each source topic in the plan that runs.
        lanes: Number of lanes.
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

    @property
    def lag(self) -> int:
        """How many source offsets are waiting."""
        places = self.next_offsets.keys()
        return sum(lag_of(self, place) or 0 for place in places)


def lag_of(view: SourcesView, place: TopicPartition) -> int | None:
    """Return how many offsets of a partition are waiting; None where nobody has looked yet."""
    end = view.ends.get(place)
    return None if end is None else max(0, end - view.next_offsets[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProgress:
    """How far a restore is.

    Attributes:
        done: Key groups that are current.
        groups: All key groups.
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
        time_ms: Wall-clock time.
        code: The error's code, or its class.
        what: Its first line, without secrets.
    """

    time_ms: int
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations counted in classes.

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
        """Return the same with one more."""
        counts = list(self.counts)
        counts[sum(bound < seconds for bound in self.bounds)] += 1
        return Histogram(tuple(counts), self.total_s + seconds, self.bounds)

    def up_to(self) -> list[tuple[float, int]]:
        """Return for each upper end how many durations were no longer."""
        seen, found = 0, list[tuple[float, int]]()
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            found.append((bound, seen))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What was counted since this process started the application.

    Attributes:
        epochs: By outcome, how many attempts of epochs ended so.
        records: Source records that were read and committed.
        counters: Counts by name, as the tasks of epochs gave them.
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
    """What a worker process is at.

    Attributes:
        pid: The process.
        activity: ``rest``, ``read``, ``decode`` or ``step``.
        stage: The stage, or -1.
        lane: The task of that stage, which after the first stage is the lane; or -1.
        step: The name of the step, or empty.
        seconds: How long it has been at it.
        record: The record that a function of the user's has now, where the worker said so.
        stack: The stacks of its Python threads, where the worker said so.
    """

    pid: int
    activity: str
    stage: int
    lane: int
    step: str
    seconds: float
    record: str = ""
    stack: str = ""
