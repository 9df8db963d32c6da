"""The settings of an application: one frozen, typed model with a source for every value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mustela.config.admin import AdminSettings
from mustela.config.aliases import guarantee
from mustela.config.commit import CommitSettings
from mustela.config.directories import default_state_dir
from mustela.config.handlers import handler_text, read_handler_setting
from mustela.config.history import HistorySettings
from mustela.config.layers import Layers, merge_layers
from mustela.config.lifetime import RestartSettings, ShutdownSettings, StallSettings
from mustela.config.logs import LogSettings
from mustela.config.masking import mask_value
from mustela.config.problems import value_error
from mustela.config.section import Count, Duration, Section, Size, comma_joined
from mustela.config.state import StateSettings
from mustela.config.traces import TracesSettings
from mustela.config.units import reset_duration_ms

__all__ = [
    "EpochSettings",
    "Handler",
    "HistorySettings",
    "JarsSettings",
    "LeaseSettings",
    "LogSettings",
    "NamingSettings",
    "ProcessingSettings",
    "Settings",
    "ShutdownSettings",
    "StateSettings",
    "TopicsSettings",
    "app_configs",
    "setting_keys",
]

_APPLICATION_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MIB = 2**20


Handler = Annotated[
    Literal["fail", "continue", "dead_letter"] | Any,
    BeforeValidator(read_handler_setting),
    PlainSerializer(handler_text, when_used="json"),
]
"""A word, or what is to be called: a function, or an object with a method ``handle``."""


class EpochSettings(Section):
    """How large an epoch may become."""

    max_records: Count = Field(
        default=500_000, ge=1, description="Maximum number of input records of one epoch."
    )
    max_bytes: Size = Field(
        default=64 * _MIB, ge=1, description="Approximate maximum of input bytes of one epoch."
    )
    max_time: Duration = Field(
        default=timedelta(seconds=1),
        gt=timedelta(0),
        description="Target for the longest time of an epoch; its size is tuned to this. Up to "
        "three times as long if much of it does not depend on what is read, as with many stages.",
    )
    small: Duration = Field(
        default=timedelta(milliseconds=100),
        ge=timedelta(0),
        description="An epoch that all cores together would do at most this much sooner than one, "
        "multiplied by its number of re-keyings if there are any, runs as one task: on two cores "
        "twice as much work. With 0ms none does. Only where all workers are on one host.",
    )
    result_bytes: Size = Field(
        default=256 * _MIB,
        ge=1,
        description="Bytes of results that the driver holds in memory before it spills to disk.",
    )


class ProcessingSettings(Section):
    """How long the program's functions may take."""

    warn_after: Duration = Field(
        default=timedelta(seconds=30),
        gt=timedelta(0),
        description="Time that a step may take for one batch of records before the application "
        "reports the step, record and line. Only where all workers are on one host.",
    )
    timeout: Duration | None = Field(
        default=None,
        gt=timedelta(0),
        description="Time after which the worker is killed and the application ends with an error "
        "that reports the same; nothing of the epoch is committed. null for no limit. Only "
        "where all workers are on one host.",
    )


class NamingSettings(Section):
    """How strictly steps must be named."""

    strict: bool = Field(
        default=True, description="Refuse to run if a stateful step has no explicit name."
    )


class TopicsSettings(Section):
    """What may be done to topics."""

    create: bool = Field(default=False, description="Create sink topics that do not exist.")
    refresh: Duration = Field(
        default=timedelta(seconds=30),
        gt=timedelta(0),
        description="Interval at which to look for new partitions, and for new topics that match a "
        "source's pattern.",
    )


class TopologySettings(Section):
    """How a topology becomes a plan."""

    rules_off: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Planner rules to switch off, separated by commas; rules change how a program "
        "runs, not its results. `mustela explain` shows what they do.",
    )

    @property
    def rules(self) -> frozenset[str]:
        """The names in ``rules_off``."""
        return frozenset(name.strip() for name in self.rules_off.split(",") if name.strip())


class LeaseSettings(Section):
    """How an instance says that it lives."""

    interval: Duration | None = Field(
        default=None,
        ge=timedelta(milliseconds=100),
        le=timedelta(minutes=5),
        description="Time between two records in the topic `<application_id>-lease`, which tell "
        "standbys and `mustela reset` that an instance is alive. One that misses three is assumed "
        "dead; only Kafka's fencing decides who owns the application. null: 400 milliseconds with "
        "`standby`, where a standby takes over in so much less time, otherwise 3 seconds.",
    )


class JarsSettings(Section):
    """Where the jars of the development broker come from."""

    mirror: str | None = Field(
        default=None, description="URL of a Maven repository to use instead of Maven Central."
    )
    directory: Path | None = Field(
        default=None, description="Directory that holds the jars; then nothing is downloaded."
    )


def _is_application_id(value: object) -> bool:
    if not isinstance(value, str) or value in (".", ".."):
        return False
    return _APPLICATION_ID.fullmatch(value) is not None


class Settings(BaseSettings):
    """Every setting of an application, from four sources.

    Defaults give way to ``mustela.yaml`` (in the working directory, or the file that
    ``MUSTELA_CONFIG_FILE`` names), that to ``MUSTELA__SECTION__KEY`` in the environment, and that
    to what the program says. Kafka Streams' names (``commit.interval.ms``) work too. Printing
    settings shows no secret.

    Example:
        >>> settings = Settings.load(application_id="wordcount", commit_interval="200ms")
        >>> settings.commit_interval
        datetime.timedelta(microseconds=200000)
        >>> settings.source_of("commit_interval"), settings.source_of("lanes")
        ('code', 'default')
        >>> settings.dead_letter_topic
        'wordcount-dead-letters'
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=True)

    application_id: str = Field(
        description="Name of the application: its consumer group, its transactional id and the "
        "prefix of its internal topics. Letters, digits, `.`, `_` and `-`, at most 200."
    )
    bootstrap_servers: str = Field(
        default="localhost:9092", min_length=1, description="Brokers to ask first, host:port,…"
    )
    processing_guarantee: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once",
        description="Whether sink rows are part of the epoch's transaction.",
    )
    commit_interval: Duration = Field(
        default=timedelta(milliseconds=100),
        description="Minimum time between the starts of two epochs; more when epochs take longer.",
    )
    latency_target: Duration | None = Field(
        default=None,
        description="Time within which a record's results should be visible; at least "
        "`commit_interval`. Epochs then follow each other as rarely as that allows, and at "
        "`commit_interval` when they take that long: the fewer epochs, the less CPU. null for "
        "`commit_interval` alone.",
    )
    commit_timeout: Duration = Field(
        default=timedelta(seconds=60),
        gt=timedelta(0),
        description="Time that a commit may take before a new producer determines its outcome; "
        "also the transaction timeout.",
    )
    lanes: Count | None = Field(
        default=None, ge=1, description="Parallel lanes; null for as many as Spark has cores."
    )
    key_groups: Count | None = Field(
        default=None,
        ge=1,
        le=32_768,
        description="Number of groups that keys are hashed into: a power of two, fixed for the "
        "life of an application. State and changelogs are partitioned by it, and more lanes than "
        "key groups find nothing to do. null for four for each core of the host of the first "
        "start, at least 8 and at most 32, unless it has more cores than that; on a cluster 32. "
        "The epoch record keeps the number.",
    )
    state_dir: Path = Field(
        default_factory=lambda: default_state_dir(os.environ),
        description="Directory for local state, on a local disk; default "
        "`$XDG_STATE_HOME/mustela`, else `~/.local/state/mustela`.",
    )
    replication_factor: Count = Field(
        default=-1,
        ge=-1,
        le=32_767,
        description="Replicas of internal topics; -1 for the broker's default.",
    )
    auto_offset_reset: str = Field(
        default="earliest",
        description="Where to start in a topic that has no committed offset: earliest, latest, "
        "by_duration:… (by_duration:1h is one hour back), or none: an error.",
    )
    event_time: Literal["watermark", "stream-time"] = Field(
        default="watermark",
        description="What closes windows: the watermark over all partitions, or, exactly as in "
        "Kafka Streams, the largest timestamp that each operator has seen.",
    )
    emit: Literal["barrier", "every"] = Field(
        default="barrier",
        description="Whether a table forwards one change per key and epoch, or every update.",
    )
    max_task_idle: Duration = Field(
        default=timedelta(0),
        description="How long to wait for an empty source, to merge sources in time order.",
    )
    max_out_of_orderness: Duration = Field(
        default=timedelta(0),
        description="How far records may be behind the largest timestamp of their partition.",
    )
    idleness: Duration = Field(
        default=timedelta(seconds=60),
        gt=timedelta(0),
        description="Time after which a partition without records no longer holds back the "
        "watermark.",
    )
    max_future_skew: Duration = Field(
        default=timedelta(hours=1),
        description="How far ahead of the clock a timestamp may be and still advance the "
        "watermark.",
    )
    max_source_drift: Duration | None = Field(
        default=None,
        description="How far a source partition may be ahead of the watermark; one that is further "
        "ahead is held back until the others have caught up, or are idle. null for no limit.",
    )
    deserialization_handler: Handler = Field(
        default="fail",
        description="What to do with a record that cannot be decoded. A "
        "function is named as `module:function`; see [Errors](../guides/errors.md).",
    )
    processing_handler: Handler = Field(
        default="fail", description="What to do with a record for which user code raises; likewise."
    )
    production_handler: Handler = Field(
        default="fail",
        description="What to do with an output row that cannot be encoded, or that the broker "
        "refuses; likewise.",
    )
    dead_letter_topic: str = Field(
        default="",
        description="Topic for dead letters; default `<application_id>-dead-letters`.",
    )
    epoch_header: str = Field(
        default="mustela.epoch",
        description="Header with the epoch's number on every output row; empty for none.",
    )
    class_archive: bool = Field(
        default=True,
        description="When the application stops, create the class archive that shortens startup, "
        "in the background, if there is none; it takes 80 MB of the user's cache.",
    )
    standby: bool = Field(
        default=False,
        description="Wait at startup while another instance runs, instead of taking over from it, "
        "with Spark started and state kept up to date; and again when another has taken over.",
    )
    hold_format: bool = Field(
        default=False,
        description="Change nothing that the release before could not read: rows of stores are "
        "written in the version before this one, where its upgrade says the way `back`. A start "
        "that cannot do without a newer form is refused with `FORMAT_NOT_HELD`.",
    )
    epoch: EpochSettings = EpochSettings()
    state: StateSettings = StateSettings()
    processing: ProcessingSettings = ProcessingSettings()
    shutdown: ShutdownSettings = ShutdownSettings()
    restart: RestartSettings = RestartSettings()
    stall: StallSettings = StallSettings()
    naming: NamingSettings = NamingSettings()
    topics: TopicsSettings = TopicsSettings()
    topology: TopologySettings = TopologySettings()
    lease: LeaseSettings = LeaseSettings()
    history: HistorySettings = HistorySettings()
    commit: CommitSettings = CommitSettings()
    jars: JarsSettings = JarsSettings()
    log: LogSettings = LogSettings()
    traces: TracesSettings = TracesSettings()
    admin: AdminSettings = AdminSettings()
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Spark properties: `spark.master`, `spark.executor.memory`, …",
    )
    kafka: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of the Kafka client (librdkafka) by their own names, for every "
        "client; `kafka.consumer.…`, `kafka.producer.…` and `kafka.admin.…` for one kind.",
    )
    schema_registry: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of the schema registry by Confluent's names: `url`, …",
    )

    DEFAULT: ClassVar[str] = "default"
    _sources: dict[str, str] = PrivateAttr(default_factory=dict[str, str])
    _layers: Layers | None = PrivateAttr(default=None)

    def __init__(self, sources: Mapping[str, str] | None = None, /, **values: Any) -> None:
        application = values.get("application_id")
        if not values.get("dead_letter_topic") and _is_application_id(application):
            values["dead_letter_topic"] = f"{application}-dead-letters"
        try:
            super().__init__(**values)
        except ValidationError as error:
            # `from None`: pydantic's own text shows the values.
            raise value_error(error, sources or {}) from None
        self._sources.update(sources or {})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the hook's signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what `load` merged: it knows the source of each value, and checks each name."""
        return (init_settings,)

    @classmethod
    def load(
        cls,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
        **code: Any,
    ) -> Self:
        """Read all sources, check every name and value, and return the settings.

        Args:
            values: Settings from the program by name; nested, dotted or Kafka Streams' names.
            environ: The environment, by default the process's own.
            directory: Where to look for ``mustela.yaml``, by default the working directory.
            **code: Settings from the program as keywords; they win over ``values``.

        Raises:
            UnknownSettingError: If a name is unknown, wherever it stands.
            SettingValueError: If a value is not allowed or ``application_id`` is missing.
            ForcedSettingError: If a Kafka property is one that Mustela sets by itself.
            SettingsFileError: If the settings file cannot be read.
        """
        environ = os.environ if environ is None else environ
        layers = merge_layers(
            leaves=setting_keys(),
            code={**(values or {}), **code},
            environ=environ,
            directory=directory or Path.cwd(),
        )
        nested = layers.nested()
        nested.setdefault("state_dir", default_state_dir(environ))
        return cls._of(layers, nested)

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return the same settings with other values over them; no source is read again.

        Args:
            values: Settings by name; nested, dotted or Kafka Streams' names.

        Raises:
            UnknownSettingError: If a name is unknown.
            SettingValueError: If a value is not allowed.

        Example:
            >>> settings = Settings.load(application_id="wordcount", emit="every")
            >>> other = settings.with_values({"commit.interval.ms": 5})
            >>> other.emit, other.commit_interval
            ('every', datetime.timedelta(microseconds=5000))
        """
        if not values:
            return self
        under = self._layers or _merged(self.model_dump(exclude_unset=True), None)
        layers = _merged(values, under)
        return self._of(layers, {"state_dir": self.state_dir, **layers.nested()})

    @classmethod
    def _of(cls, layers: Layers, nested: dict[str, Any]) -> Self:
        settings = cls(layers.sources(), **nested)
        settings._layers = layers
        return settings

    @field_validator("processing_guarantee", mode="before")
    @classmethod
    def _take_kafkas_guarantee(cls, value: Any) -> Any:
        return guarantee(value)

    @field_validator("application_id")
    @classmethod
    def _check_application_id(cls, value: str) -> str:
        if not _is_application_id(value):
            msg = "letters, digits, '.', '_' and '-', at most 200 of them, and not '.' or '..'"
            raise ValueError(msg)
        return value

    @field_validator("dead_letter_topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        if value and (not _TOPIC.fullmatch(value) or value in (".", "..")):
            msg = "a topic's name: letters, digits, '.', '_' and '-', at most 249 of them"
            raise ValueError(msg)
        return value

    @field_validator("key_groups")
    @classmethod
    def _check_power_of_two(cls, value: int | None) -> int | None:
        if value is not None and value & (value - 1):
            msg = "a power of two: 1, 2, 4, 8, 16, 32, …"
            raise ValueError(msg)
        return value

    @field_validator("latency_target")
    @classmethod
    def _check_latency(cls, value: timedelta | None, info: ValidationInfo) -> timedelta | None:
        interval = info.data.get("commit_interval")
        if value is not None and interval is not None and value < interval:
            milliseconds = interval / timedelta(milliseconds=1)
            msg = f"at least commit_interval, which is {milliseconds:g}ms, or null"
            raise ValueError(msg)
        return value

    @field_validator("replication_factor")
    @classmethod
    def _check_replication(cls, value: int) -> int:
        if value == 0:
            msg = "-1 for the broker's default, or at least 1"
            raise ValueError(msg)
        return value

    @field_validator("auto_offset_reset")
    @classmethod
    def _check_reset(cls, value: str) -> str:
        if value not in ("earliest", "latest", "none") and reset_duration_ms(value) is None:
            msg = "earliest, latest, none, or by_duration: with a duration, as by_duration:1h"
            raise ValueError(msg)
        return value

    @field_validator("state_dir")
    @classmethod
    def _expand(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    def source_of(self, key: str) -> str:
        """Return where a value came from.

        Args:
            key: The setting's whole name, such as ``epoch.max_records``.

        Returns:
            ``default``, ``mustela.yaml:3``, ``environment MUSTELA__LANES`` or ``code``.

        Raises:
            KeyError: If there is no such setting.
        """
        if key not in self._sources and key not in setting_keys():
            raise KeyError(key)
        return self._sources.get(key, self.DEFAULT)

    def masked(self) -> dict[str, Any]:
        """Return every value by its whole name, secrets replaced by ``******``.

        Example:
            >>> settings = Settings.load(application_id="a", kafka={"sasl.password": "hunter2"})
            >>> settings.masked()["kafka.sasl.password"]
            '******'
        """
        flat: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, BaseModel):
                for inner in type(value).model_fields:
                    key = f"{name}.{inner}"
                    flat[key] = mask_value(key, getattr(value, inner))
            elif name in ("spark", "kafka", "schema_registry"):
                for inner, item in sorted(value.items()):
                    key = inner if name == "spark" else f"{name}.{inner}"
                    flat[key] = mask_value(key, item)
            else:
                flat[name] = mask_value(name, value)
        return flat

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Mask what is secret: this is what repr, str and rich print."""
        for name, value in super().__repr_args__():
            yield name, mask_value(name or "", value)


def _merged(code: Mapping[str, Any], under: Layers | None) -> Layers:
    """Merge what the program says alone, over what was read before."""
    return merge_layers(
        leaves=setting_keys(), code=code, environ={}, directory=Path(__file__).parent, under=under
    )


def setting_keys() -> dict[str, type[BaseModel]]:
    """Return the whole name of every setting with the model that owns it, in order.

    ``spark``, ``kafka`` and ``schema_registry`` are free mappings, and listed as such.
    """
    keys: dict[str, type[BaseModel]] = {}
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            keys.update({f"{name}.{inner}": section for inner in section.model_fields})
        else:
            keys[name] = Settings
    return keys


def app_configs(settings: Settings) -> dict[str, Any]:
    """Return an application's settings as processors see them: plain values, and no secrets.

    What is said to Kafka's clients, to the schema registry, to Spark and of the admin server is
    left out, for passwords and tokens are among it.

    Example:
        >>> app_configs(Settings.load({"application_id": "orders"}, environ={}))["emit"]
        'barrier'
    """
    secret = {"admin", "kafka", "schema_registry", "spark"}
    return settings.model_dump(mode="json", exclude=secret)
