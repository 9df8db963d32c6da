"""Kafka Streams' property names: what they mean here, or why they mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Protocol

from mustela.config.errors import SettingValueError
from mustela.config.handlers import read_handler_setting
from mustela.config.masking import mask_text

__all__ = ["Alias", "aliases", "find_alias", "known_aliases"]


class _Spelled(Protocol):
    """Where a value stands, for errors."""

    @property
    def spelled(self) -> str: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """What a Kafka Streams property means here.

    Attributes:
        setting: The setting it stands for, or None when it means nothing.
        why: Why it means nothing.
        reader: Turns its value into the setting's.
    """

    setting: str | None = None
    why: str = ""
    reader: Callable[[Any], Any] | None = None

    def convert(self, value: Any, spelled: _Spelled) -> Any:
        """Return the setting's value.

        Raises:
            SettingValueError: If the value has no meaning here.
        """
        if self.reader is None:
            return value
        try:
            return self.reader(value)
        except (ValueError, OverflowError) as error:
            what = f"setting {spelled.spelled} cannot be {mask_text(str(value))!r:.80}"
            raise SettingValueError(
                what,
                evidence={"source": spelled.source, "allowed": error},
                fields={"key": self.setting, "source": spelled.source},
            ) from None


def _milliseconds(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        number = int(value)
    except (TypeError, ValueError):
        msg = "a whole number of milliseconds"
        raise ValueError(msg) from None
    return timedelta(milliseconds=number)


def guarantee(value: Any) -> Any:
    """Return the guarantee that Kafka Streams has by another name, or what was given."""
    return {"exactly_once_v2": "exactly_once", "exactly_once_beta": "exactly_once"}.get(
        str(value).lower(), value
    )


def _cache(value: Any) -> str:
    """A cache of no bytes forwards every update; any other forwards once per commit."""
    try:
        return "every" if int(value) == 0 else "barrier"
    except (TypeError, ValueError):
        msg = "a whole number of bytes; 0 means emit = every, more means emit = barrier"
        raise ValueError(msg) from None


def _backend(value: Any) -> str:
    name = str(value).rsplit(".", 1)[-1].rsplit("$", 1)[-1].lower()
    if "memory" in name:
        return "memory"
    if "rocks" in name:
        return "lmdb"
    msg = "rocksDB (state.backend = lmdb) or in_memory (state.backend = memory)"
    raise ValueError(msg)


_ONE_JOB = "an epoch is one Spark job; set lanes or spark.master for more cores"
_NO_REBALANCE = "there are no rebalances: lanes are not tied to partitions"
_STANDBY = (
    "a cluster keeps state.standby_replicas copies within state.standby_lag; with standby: true a "
    "second instance waits, with a copy of the state on its host"
)
_SERDES = "serdes are declared per topic: stream(topic, key=…, value=…)"
_METRICS = "metrics are Mustela's own"
_WINDOWED = "windowed keys carry their windows; declare the inner type"
_OPTIMIZE = "the planner always optimizes; its rules have their own switches"
_FETCH = "an epoch is sized by epoch.max_records, epoch.max_bytes and epoch.max_time"


def _means(setting: str, reader: Callable[[Any], Any] | None = None) -> Alias:
    return Alias(setting=setting, reader=reader)


def _nothing(why: str) -> Alias:
    return Alias(why=why)


_HANDLER = read_handler_setting

_ALIASES = MappingProxyType(
    {
        "application.id": _means("application_id"),
        "bootstrap.servers": _means("bootstrap_servers"),
        "processing.guarantee": _means("processing_guarantee", guarantee),
        "commit.interval.ms": _means("commit_interval", _milliseconds),
        "task.timeout.ms": _means("commit_timeout", _milliseconds),
        "state.dir": _means("state_dir"),
        "replication.factor": _means("replication_factor"),
        "auto.offset.reset": _means("auto_offset_reset"),
        "max.task.idle.ms": _means("max_task_idle", _milliseconds),
        "statestore.cache.max.bytes": _means("emit", _cache),
        "cache.max.bytes.buffering": _means("emit", _cache),
        "deserialization.exception.handler": _means("deserialization_handler", _HANDLER),
        "default.deserialization.exception.handler": _means("deserialization_handler", _HANDLER),
        "processing.exception.handler": _means("processing_handler", _HANDLER),
        "production.exception.handler": _means("production_handler", _HANDLER),
        "default.production.exception.handler": _means("production_handler", _HANDLER),
        "errors.deadletterqueue.topic.name": _means("dead_letter_topic"),
        "errors.dead.letter.queue.topic.name": _means("dead_letter_topic"),
        "ensure.explicit.internal.resource.naming": _means("naming.strict"),
        "default.dsl.store": _means("state.backend", _backend),
        "dsl.store.suppliers.class": _means("state.backend", _backend),
        "consumer.auto.offset.reset": _means("auto_offset_reset"),
        "num.stream.threads": _nothing(_ONE_JOB),
        "num.standby.replicas": _nothing(_STANDBY),
        "max.warmup.replicas": _nothing(_STANDBY),
        "acceptable.recovery.lag": _nothing(_STANDBY),
        "probing.rebalance.interval.ms": _nothing(_NO_REBALANCE),
        "group.protocol": _nothing(_NO_REBALANCE),
        "task.assignor.class": _nothing(_NO_REBALANCE),
        "rack.aware.assignment.strategy": _nothing(_NO_REBALANCE),
        "rack.aware.assignment.tags": _nothing(_NO_REBALANCE),
        "rack.aware.assignment.traffic.cost": _nothing(_NO_REBALANCE),
        "rack.aware.assignment.non.overlap.cost": _nothing(_NO_REBALANCE),
        "buffered.records.per.partition": _nothing(_FETCH),
        "input.buffer.max.bytes": _nothing(_FETCH),
        "max.poll.records": _nothing(_FETCH),
        "poll.ms": _nothing(_FETCH),
        "repartition.purge.interval.ms": _nothing("there are no repartition topics"),
        "state.cleanup.delay.ms": _nothing("state that no stage claims is deleted at start"),
        "state.cleanup.dir.max.age.ms": _nothing("state that no stage claims is deleted at start"),
        "dsl.store.format": _nothing("set Materialized(with_headers=True) on each table"),
        "processing.exception.handler.global.enabled": _nothing(
            "processing_handler also applies to the records of global stores"
        ),
        "topology.optimization": _nothing(_OPTIMIZE),
        "default.key.serde": _nothing(_SERDES),
        "default.value.serde": _nothing(_SERDES),
        "default.list.key.serde.inner": _nothing(_SERDES),
        "default.list.key.serde.type": _nothing(_SERDES),
        "default.list.value.serde.inner": _nothing(_SERDES),
        "default.list.value.serde.type": _nothing(_SERDES),
        "default.timestamp.extractor": _nothing("extractors are given per topic, in stream(…)"),
        "windowed.inner.class.serde": _nothing(_WINDOWED),
        "default.windowed.key.serde.inner": _nothing(_WINDOWED),
        "default.windowed.value.serde.inner": _nothing(_WINDOWED),
        "window.size.ms": _nothing(_WINDOWED),
        "default.client.supplier": _nothing("Java classes cannot be loaded"),
        "processor.wrapper.class": _nothing("Java classes cannot be loaded"),
        "rocksdb.config.setter": _nothing("stores are LMDB; see Materialized(engine=...)"),
        "metrics.num.samples": _nothing(_METRICS),
        "metrics.recording.level": _nothing(_METRICS),
        "metrics.sample.window.ms": _nothing(_METRICS),
        "built.in.metrics.version": _nothing(_METRICS),
        "log.summary.interval.ms": _nothing(_METRICS),
        "upgrade.from": _nothing("formats carry their own versions"),
        "application.server": _nothing("there are no queries of state from outside yet"),
        "windowstore.changelog.additional.retention.ms": _nothing(
            "a window changelog keeps rows for a day more than its store; Materialized"
            "(topic_config=…) sets retention.ms"
        ),
        "allow.os.group.write.access": _nothing("state is private to its user"),
    }
)


def find_alias(key: str) -> Alias | None:
    """Return what a Kafka Streams property means, or None if it is none.

    ``default.…`` names of old versions and the spelling with underscores, as environment
    variables have it, are known too.

    Example:
        >>> find_alias("commit.interval.ms").setting
        'commit_interval'
        >>> find_alias("num_stream_threads").setting is None
        True
    """
    dotted = key.replace("_", ".").lower()
    for prefix in ("main.consumer.", "restore.consumer.", "global.consumer."):
        if dotted.startswith(prefix):
            rest = dotted.removeprefix(prefix)
            return _nothing(f"there is only one kind of consumer: use kafka.consumer.{rest}")
    if dotted.startswith(("topic.", "client.tag.")) and dotted.count(".") > 1:
        return _topic_or_tag(dotted)
    return _ALIASES.get(dotted)


def _topic_or_tag(dotted: str) -> Alias | None:
    if dotted.startswith("client.tag."):
        return _nothing(_NO_REBALANCE)
    if dotted.startswith(("topic.metadata.", "topic.blacklist")):
        return None  # librdkafka's own
    return _nothing("internal topics have the configuration that their format needs")


def aliases() -> dict[str, Alias]:
    """Return every Kafka Streams name that is known, with what it means."""
    return dict(_ALIASES)


def known_aliases() -> list[str]:
    """Return the Kafka Streams names that mean something here, for did-you-mean."""
    return sorted(name for name, alias in _ALIASES.items() if alias.setting is not None)
