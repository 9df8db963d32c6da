"""Running an application over DataFrames: what users say, and what an engine is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from mustela.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:  # workers that make records need only inputs and errors
    from mustela.config.settings import Settings
    from mustela.plan.plan import Plan
    from mustela.runtime.app import App

__all__ = [
    "BatchEngine",
    "BatchEngineError",
    "BatchInput",
    "BatchInputError",
    "BatchOutputError",
    "BatchRefusedError",
    "BatchRequest",
    "BatchResult",
    "batch",
    "request_of",
]


class BatchInputError(UsageError):
    """An input of a batch does not fit the application."""

    code = "BATCH_INPUT"


class BatchOutputError(UsageError):
    """A row that a batch wrote does not fit the type of its column."""

    code = "BATCH_OUTPUT"


class BatchRefusedError(UsageError):
    """An application, or a step of it, cannot run over DataFrames."""

    code = "BATCH_REFUSED"


class BatchEngineError(EnvironmentFault):
    """What a batch needs is not installed, or the engine cannot run one."""

    code = "BATCH_ENGINE"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput:
    """The records of a topic, and what its columns mean.

    The names that are the default are those of Spark's Kafka source, so what
    ``spark.read.format("kafka")`` gives needs no options.

    Attributes:
        data: A Spark DataFrame, a pandas DataFrame, an Arrow table, or the path of a Parquet file
            or directory.
        key: Column of the keys; without it, keys are None. Bytes are taken as the topic would hold
            them, anything else is encoded by the source's serde.
        value: Column of the values, likewise. If there is none, the other columns together are the
            value, as the fields of a document; if all of them are null, so is the value.
        timestamp: Column of the times: timestamps (without a time zone they are UTC), dates, or
            whole milliseconds since 1970.
        headers: Column of the headers: a list of structs with fields ``key`` and ``value``.
        partition: Column of the partitions.
        offset: Column of the offsets. With offsets, records stay in the order of their offsets in
            each partition, as the topic has them, late records included. Without them, records are
            read in the order of their times.

    Example:
        >>> BatchInput(data="orders.parquet", key="customer", timestamp="at").key
        'customer'
    """

    data: Any
    key: str = "key"
    value: str = "value"
    timestamp: str = "timestamp"
    headers: str = "headers"
    partition: str = "partition"
    offset: str = "offset"


class BatchResult(Mapping[str, Any]):
    """What an application wrote: a Spark DataFrame by topic.

    Each has the columns ``key`` and ``value``, typed like the sink's serdes, ``timestamp``,
    ``headers``, ``partition`` where a partitioner chose one, and ``offset``: rows in the order of
    their offsets are in the order in which the stream would have written them.

    Attributes:
        counters: Counts by name, as in an application's metrics.
        watermark: The event time reached, in milliseconds; -1 if there was no record.
        epochs: How many epochs the records were read in.
    """

    counters: Mapping[str, int]
    watermark: int
    epochs: int

    def __enter__(self) -> Self:
        """Return the result; its files are deleted at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the files."""
        self.close()

    @property
    def has_dead_letters(self) -> bool:
        """Whether there are dead letters."""
        raise NotImplementedError

    @property
    def dead_letters(self) -> Any:
        """The dead letters, with raw keys and values; their headers say what failed."""
        raise NotImplementedError

    def raw(self, topic: str) -> Any:
        """Return the rows of a topic with keys and values as the bytes that Kafka would hold."""
        raise NotImplementedError

    def to_arrow(self, topic: str, *, raw: bool = False) -> Any:
        """Return the rows of a topic as an Arrow table, in the order of their offsets.

        Args:
            topic: The topic.
            raw: Whether keys and values are left as the bytes that Kafka would hold.
        """
        raise NotImplementedError

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> Any:
        """Return a store as it was at the end: a read-only handle of its kind, over all lanes.

        Args:
            name: The store's name.
            timestamps: Whether values are shown with their timestamps, as `ValueAndTimestamp`.
            headers: Whether values are shown with timestamps and headers.

        Raises:
            UnknownStoreError: If there is no store of that name.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Delete the files; DataFrames that were not read by then cannot be read any more."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What an engine runs.

    Attributes:
        settings: The application's settings.
        plan: Its plan.
        inputs: The records of each topic.
        session: A session of the engine that the user's program has.
        flush: Whether event time goes on at the end until no window is open.
        epoch_records: How many records an epoch reads, about.
        directory: Where temporary files go; None for the system's.
        debug: Whether errors include the engine's own stack traces.
    """

    settings: Settings
    plan: Plan
    inputs: Mapping[str, BatchInput]
    session: Any = None
    flush: bool = False
    epoch_records: int = 500_000
    directory: str | None = None
    debug: bool = False


class BatchEngine(Protocol):
    """An engine that runs applications over DataFrames."""

    def batch(self, request: BatchRequest) -> BatchResult:
        """Run an application over all records of its inputs."""
        ...


def batch(
    app: App,
    inputs: Mapping[str, Any],
    *,
    flush: bool = False,
    session: Any = None,
    epoch_records: int = 500_000,
    directory: str | None = None,
) -> BatchResult:
    """Run an application's topology over DataFrames, without a broker.

    Tables, windows, joins and timers follow event time as in the stream: records of all inputs are
    taken smallest timestamp first. A global table holds all of its rows from the start. The clock
    is event time, too. Nothing of the application in Kafka is read or changed.

    Needs ``mustela[batch]`` (pandas and pyarrow) and a Spark that runs on this host.

    Args:
        app: The application, with its settings.
        inputs: For each source topic its records: a Spark or pandas DataFrame, an Arrow table, the
            path of a Parquet file or directory, or a `BatchInput` with such data.
        flush: Whether event time moves on after the last record until no window is open. Otherwise
            the result ends as the stream's would at that moment: a final result of a window that is
            still open is not in it.
        session: A SparkSession or SparkContext; by default the inputs', the application's, the
            active one, or a new one.
        epoch_records: How many records are handled at once, about; memory grows with it. With
            ``emit = barrier``, each key changes at most once in so many.
        directory: Where temporary files go: records, state and results; by default the system's
            directory. They are deleted when the result is closed, or the process ends.

    Returns:
        A mapping from each sink topic to a Spark DataFrame, with more: see `BatchResult`.

    Raises:
        BatchInputError: If an input is missing, is not read, or lacks a column.
        BatchRefusedError: If a step calls the outside, or runs by the wall clock.
        DataError: If a record is bad and its handler is ``fail``.

    Example:
        >>> from mustela import App
        >>> app = App("wordcount")
        >>> @app.topology
        ... def build(builder):
        ...     words = builder.stream("words", key=str, value=str).group_by_key()
        ...     words.count(store="counts").to_stream().to("counts", key=str, value=int)
        >>> batch(app, {"word": "words.parquet"})
        Traceback (most recent call last):
        ...
        mustela.runtime.batch.BatchInputError: the application reads no topic 'word'
          fix:   give inputs for: words
          code:  BATCH_INPUT
    """
    request = request_of(
        app,
        inputs,
        flush=flush,
        session=session,
        epoch_records=epoch_records,
        directory=directory,
    )
    from mustela.runtime.installed import load_engine

    name = app._engine_name  # pyright: ignore[reportPrivateUsage]
    engine: Any = load_engine(name)
    if not hasattr(engine, "batch"):
        msg = f"the engine {name} runs no batches"
        raise BatchEngineError(msg, fix="use the engine spark")
    runner: BatchEngine = engine
    return runner.batch(request)


def request_of(app: App, inputs: Mapping[str, Any], **options: Any) -> BatchRequest:
    """Return what an engine is asked for.

    Args:
        app: The application.
        inputs: As for `batch`.
        **options: Likewise.

    Raises:
        BatchInputError: If an input is missing, or is not read.
    """
    given = {
        topic: data if isinstance(data, BatchInput) else BatchInput(data=data)
        for topic, data in inputs.items()
    }
    plan = app.built_plan().with_topics(given)
    _check_topics(plan, given)
    session = options.pop("session", None)
    return BatchRequest(
        settings=app.settings,
        plan=plan,
        inputs=given,
        session=session or app._session,  # pyright: ignore[reportPrivateUsage]
        debug=app.debug,
        **options,
    )


def _check_topics(plan: Plan, inputs: Mapping[str, BatchInput]) -> None:
    read = {*plan.topics, *(table.topic for table in plan.global_tables)}
    unknown = sorted(inputs.keys() - read)
    if unknown:
        msg = f"the application reads no topic {unknown[0]!r}"
        raise BatchInputError(msg, fix=f"give inputs for: {', '.join(sorted(read))}")
    missing = sorted(read - inputs.keys())
    if missing:
        msg = f"there is no input for topic {missing[0]!r}, which the application reads"
        raise BatchInputError(
            msg, fix=f'add "{missing[0]}" to the inputs, with no rows if it has none'
        )
