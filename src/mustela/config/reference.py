"""The reference page of the settings, written from the model."""

from __future__ import annotations

import types
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mustela.config.aliases import aliases
from mustela.config.clients import forced_properties
from mustela.config.registry import registry_properties
from mustela.config.settings import setting_keys
from mustela.config.units import show_duration, show_size

__all__ = ["kind_of", "render_reference", "setting_rows"]

_HEAD = """# Settings

This page is written from the model in `mustela.config.settings`; `./dev golden-update` renews it.

The last of these that has a value wins: the default, `mustela.yaml` in the working
directory (or the file that `MUSTELA_CONFIG_FILE` names), the environment, the program. In the
environment a setting is `MUSTELA__` and its name in capitals, with `__` for the dot. A name that
does not exist is an error in any of them. Durations are written `0.2` (seconds), `200ms`, `1s`,
`5m`, `1h` or `PT1S`; sizes `64MiB`, `1GB` or a number of bytes. Secrets are masked wherever
settings are printed.

```yaml
application_id: wordcount
bootstrap_servers: kafka-1:9092,kafka-2:9092
commit_interval: 200ms
epoch:
  max_bytes: 128MiB
kafka:
  security.protocol: sasl_ssl
  sasl.mechanism: SCRAM-SHA-512
spark:
  master: local[4]
```

The password of this example belongs in the environment: `MUSTELA__KAFKA__SASL_PASSWORD`.

"""

_CLIENTS = """
## Kafka client properties

`kafka.*` holds the properties of librdkafka, the Kafka client, by their own names. In the
environment `_` stands for the dot: `MUSTELA__KAFKA__SECURITY_PROTOCOL` is `security.protocol`. They
are passed to every client that knows them; `kafka.consumer.…`, `kafka.producer.…` and
`kafka.admin.…` are for one kind of client and take precedence. Names of the Java client are
refused, with the name to use instead. With `exactly_once`, batches of 32 KB or more are compressed
by lz4 where that leaves two fifths of them or less. `compression.type` says otherwise: `none`, or
`gzip`, `lz4` and `zstd` for others as well; with `snappy` the driver writes each row by itself.
Mustela sets the following itself, and setting them is an error:

"""

_SPARK = """
## Spark properties

`spark.*` holds Spark's own properties. In the environment `_` stands for the dot, and Spark's
capitals are put back where the name is known: `MUSTELA__SPARK__DRIVER_MAXRESULTSIZE` is
`spark.driver.maxResultSize`. A name with small letters is taken as written.

The JVM of an application on one host does not open Spark's jars for Hive, machine learning and
clusters, unless the program has imported `pyspark.ml`, `pyspark.mllib` or `pyspark.pandas` before
it starts the application, or a property brings code or names Hive: `spark.jars`, `spark.plugins`,
`spark.extraListeners`, `spark.sql.extensions`, `spark.sql.catalog`, `spark.sql.hive`,
`spark.hadoop.hive` and what begins so.
"""

_REGISTRY = """
## Schema registry properties

`schema_registry.*` holds the properties of the schema registry, which serdes of Avro, Protobuf and
JSON Schema use. Confluent's own names are accepted, too: `schema.registry.url`,
`auto.register.schemas`. In the environment `_` stands for the dot:
`MUSTELA__SCHEMA_REGISTRY__BASIC_AUTH_USER_INFO`.

"""

_ALIASES = """
## Kafka Streams' names

These names are accepted everywhere, with Kafka Streams' own values. A handler that logs and
continues (`LogAndContinueExceptionHandler`, `LogAndContinueProcessingExceptionHandler`) is
`continue`, and `dead_letter` where a dead-letter topic is named: with
`errors.dead.letter.queue.topic.name` every handler that is set to continue writes dead letters. One
that fails writes none here: the application stops, and the record is read again.

"""

_NOTHING = """
These are accepted and do nothing, with a `MustelaSettingWarning` that says why:

"""


def render_reference() -> str:
    """Return the page in Markdown.

    Example:
        >>> "| `commit_interval` | duration | `100ms` |" in render_reference()
        True
    """
    parts = [_HEAD, *_table(["Setting", "Kind", "Default", "Meaning"], _rows()), _CLIENTS]
    forced = [[f"`{name}`", why] for name, why in sorted(forced_properties().items())]
    parts += [*_table(["Property", "Why"], forced), _SPARK, _REGISTRY]
    registry = [[f"`{name}`", meaning] for name, meaning in registry_properties().items()]
    parts += [*_table(["Property", "Meaning"], registry), _ALIASES]
    known = sorted(aliases().items())
    means = [[f"`{name}`", f"`{a.setting}`"] for name, a in known if a.setting is not None]
    nothing = [[f"`{name}`", a.why] for name, a in known if a.setting is None]
    parts += _table(["Kafka Streams", "Setting"], means)
    parts += [_NOTHING, *_table(["Kafka Streams", "Why"], nothing)]
    return "".join(parts)


def setting_rows() -> list[dict[str, str]]:
    """Return the table of all settings, for programs.

    Example:
        >>> setting_rows()[0]["setting"]
        'application_id'
    """
    names = ("setting", "kind", "default", "meaning")
    return [dict(zip(names, (cell.strip("`") for cell in row), strict=True)) for row in _rows()]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines]


def _rows() -> list[list[str]]:
    rows: list[list[str]] = []
    for key, owner in setting_keys().items():
        field = owner.model_fields[key.rpartition(".")[2]]
        kind = kind_of(field)
        rows.append([f"`{key}`", kind, _default(key, field, kind), field.description or ""])
    return rows


def kind_of(field: FieldInfo) -> str:
    """Return the kind of a setting in a word or two."""
    names = {"parse_duration": "duration", "parse_size": "size"}
    for marker in field.metadata:
        name = getattr(getattr(marker, "func", None), "__name__", "")
        if name in names:
            return names[name]
    return _type_kind(field.annotation)


def _type_kind(spec: Any) -> str:
    origin = get_origin(spec)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(spec))
    if origin in (Union, types.UnionType):
        return " or ".join(_type_kind(part) for part in get_args(spec))
    if hasattr(spec, "__metadata__"):
        return _type_kind(get_args(spec)[0])
    if spec is Any:
        return "a function"
    plain = {
        **{str: "text", int: "number", bool: "`true`, `false`", Path: "path"},
        **{timedelta: "duration", type(None): "null"},
    }
    return plain.get(spec, "mapping")


def _default(key: str, field: FieldInfo, kind: str) -> str:
    if field.is_required():
        return "required"
    if key in ("state_dir", "dead_letter_topic") or kind == "mapping":
        return "—" if kind == "mapping" else "see there"
    value: Any = field.default
    if value is None:
        return "null"
    if value == "":
        return "empty"
    if isinstance(value, timedelta):
        return f"`{show_duration(value)}`"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    return f"`{show_size(value)}`" if kind == "size" else f"`{value}`"
