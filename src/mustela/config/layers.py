"""The sources of settings, merged: defaults < file < environment < code."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import yaml

from mustela.config.aliases import find_alias, known_aliases
from mustela.config.clients import check_client_property, is_client_property
from mustela.config.errors import MustelaSettingWarning, SettingsFileError, SettingValueError
from mustela.config.handlers import HANDLER_SETTINGS, handler_word
from mustela.config.masking import mask_value
from mustela.config.problems import unknown_setting
from mustela.config.registry import REGISTRY, check_registry_property, registry_name
from mustela.config.sparknames import spark_property

__all__ = ["CONFIG_FILE", "CONFIG_FILE_VARIABLE", "ENV_PREFIX", "Layers", "merge_layers"]

CONFIG_FILE = "mustela.yaml"
CONFIG_FILE_VARIABLE = "MUSTELA_CONFIG_FILE"
ENV_PREFIX = "MUSTELA__"
_FREE = ("spark", "kafka", REGISTRY)
_CLIENTS = ("consumer", "producer", "admin")
_REMOVED = {
    "state.sync_every": "a clean stop writes state to disk; after a crash of the machine it is"
    " restored from its changelogs, even if some of it had been written",
}
"""Settings of older versions that did nothing, and why nothing took their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry:
    """One value as a source gives it.

    Attributes:
        key: Name of the setting, dotted.
        value: The value as it stands there.
        source: Where it stands.
        spelled: The name as the user wrote it.
        is_alias: Whether that is Kafka Streams' name of the setting.
    """

    key: str
    value: Any
    source: str
    spelled: str
    is_alias: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """The values that won, by whole name."""

    entries: dict[str, SettingEntry]

    def sources(self) -> dict[str, str]:
        """Return the source of every value."""
        return {key: entry.source for key, entry in self.entries.items()}

    def nested(self) -> dict[str, Any]:
        """Return the values as the settings model takes them."""
        result: dict[str, Any] = {}
        for key, entry in self.entries.items():
            section, _, rest = key.partition(".")
            if section == "spark":
                result.setdefault(section, {})[key] = entry.value
            elif rest:
                result.setdefault(section, {})[rest] = entry.value
            else:
                result[key] = entry.value
        return result


def merge_layers(
    *,
    leaves: Collection[str],
    code: Mapping[str, Any],
    environ: Mapping[str, str],
    directory: Path,
    under: Layers | None = None,
) -> Layers:
    """Read every source, resolve every name, and let the later source win.

    Args:
        leaves: The whole names of all settings.
        code: What the program says.
        environ: The environment.
        directory: Where ``mustela.yaml`` is looked for.
        under: What was read before; file and environment are not read again then.
    """
    merged: dict[str, SettingEntry] = {} if under is None else dict(under.entries)
    outside = (_from_file(environ, directory, leaves), _from_environment(environ))
    for layer in (*(outside if under is None else ()), _flatten(code, leaves, _code)):
        seen: dict[str, SettingEntry] = {}
        for entry in layer:
            resolved = _resolve(entry, leaves)
            if resolved is None:
                continue
            twin = seen.get(resolved.key)
            if twin is not None and twin.value != resolved.value:
                raise _given_twice(twin, resolved)
            seen[resolved.key] = resolved
        merged.update(seen)
    return Layers(_with_letters(merged))


def _with_letters(merged: dict[str, SettingEntry]) -> dict[str, SettingEntry]:
    """Let handlers that go on write dead letters, where it is said in Kafka Streams' words.

    There the name of the topic is all that has to be said (KIP-1034): it makes the handlers that
    log and continue write to it. Here a handler says it by itself, ``dead_letter``.
    """
    topic = merged.get("dead_letter_topic")
    if topic is None or not topic.value:
        return merged
    letters: dict[str, SettingEntry] = {}
    for key in HANDLER_SETTINGS:
        handler = merged.get(key)
        if handler is None or handler_word(handler.value) != "continue":
            continue
        if topic.is_alias or handler.is_alias:
            letters[key] = replace(handler, value="dead_letter")
    return {**merged, **letters}


def _given_twice(first: SettingEntry, second: SettingEntry) -> SettingValueError:
    return SettingValueError(
        f"setting {first.key} is given twice, with different values",
        evidence={
            first.spelled: f"{mask_value(first.key, first.value)!r} ({first.source})",
            second.spelled: f"{mask_value(second.key, second.value)!r} ({second.source})",
        },
        fix="keep one of them",
        fields={"key": first.key, "source": second.source},
    )


# -- names ------------------------------------------------------------------------------------


def _resolve(entry: SettingEntry, leaves: Collection[str]) -> SettingEntry | None:
    """Give an entry its one true name and value, or None when it means nothing here."""
    key = entry.key
    if key in leaves and key not in _FREE:
        return entry
    section, _, rest = key.partition(".")
    if section == "spark" and rest:
        return replace(entry, key=f"spark.{_spark_name(rest)}", value=_text(entry))
    if section == "kafka" and rest:
        return _client_entry(entry, rest)
    registry = rest if section == REGISTRY and rest else registry_name(key)
    if registry is not None:
        return _registry_entry(entry, registry)
    alias = find_alias(key)
    why = _REMOVED.get(key) or (alias.why if alias is not None and alias.setting is None else "")
    if why:
        note = f"setting {entry.spelled!r} ({entry.source}) has no effect: {why}"
        warnings.warn(note, MustelaSettingWarning, stacklevel=5)
        return None
    if alias is not None and alias.setting is not None:
        value = alias.convert(entry.value, entry)
        return replace(entry, key=alias.setting, value=value, is_alias=True)
    dotted = key.replace("_", ".")
    client, _, inner = dotted.partition(".")
    if (client in _CLIENTS and inner) or is_client_property(dotted):
        return _client_entry(entry, dotted)
    free = [f"{name}.…" for name in _FREE]
    names = [*leaves, *known_aliases(), *free]
    raise unknown_setting(entry.spelled, entry.source, names, like=key)


def _client_entry(entry: SettingEntry, name: str) -> SettingEntry:
    name = name.replace("_", ".").lower()
    check_client_property(name, entry.source)
    return replace(entry, key=f"kafka.{name}", value=_text(entry))


def _registry_entry(entry: SettingEntry, name: str) -> SettingEntry:
    name = name.replace("_", ".").lower()
    check_registry_property(name, entry.source)
    return replace(entry, key=f"{REGISTRY}.{name}", value=_text(entry))


def _text(entry: SettingEntry) -> str:
    """Properties of other programs are text; YAML and code may say true or 3."""
    value = entry.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        return ",".join(str(item) for item in items)
    what = f"setting {entry.spelled} cannot be a {type(value).__name__}"
    raise SettingValueError(
        what,
        evidence={"source": entry.source, "allowed": "text, a number, true or false, or a list"},
        fields={"key": entry.key, "source": entry.source},
    )


def _code(_key: str) -> str:
    return "code"


# -- sources ----------------------------------------------------------------------------------


def _flatten(
    values: Mapping[str, Any],
    leaves: Collection[str],
    source: Callable[[str], str],
    prefix: str = "",
) -> Iterator[SettingEntry]:
    sections = {leaf.partition(".")[0] for leaf in leaves if "." in leaf} | set(_FREE)
    for name, value in values.items():
        key = f"{prefix}{name}"
        if hasattr(value, "model_dump"):  # a section's own class, as Settings has it
            value = value.model_dump(exclude_unset=True)
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            # Spark's properties come whole, too: spark={"spark.master": …}.
            skip = prefix == "" and name == "spark"
            trimmed = {_trim(str(k)) if skip else str(k): v for k, v in inner.items()}
            yield from _flatten(trimmed, leaves, source, f"{key}.")
        elif not (value is None and key in sections):
            yield SettingEntry(key=key, value=value, source=source(key), spelled=key)


def _spark_name(name: str) -> str:
    """Return a property's name; "spark" may be said twice: MUSTELA__SPARK__SPARK_MASTER."""
    return spark_property(_trim(name))


def _trim(name: str) -> str:
    return name.removeprefix("spark.")


def _from_environment(environ: Mapping[str, str]) -> Iterator[SettingEntry]:
    for variable in sorted(environ):
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        parts = variable[len(ENV_PREFIX) :].split("__")
        section = parts[0].lower()
        if section in _FREE and len(parts) > 1:
            # Upper case is the environment's own habit; mixed case is meant as written.
            tail = ".".join(parts[1:]).replace("_", ".")
            key = f"{section}.{tail.lower() if tail.isupper() else tail}"
        else:
            key = ".".join(parts).lower()
        source = f"environment {variable}"
        yield SettingEntry(key=key, value=environ[variable], source=source, spelled=variable)


def _from_file(
    environ: Mapping[str, str], directory: Path, leaves: Collection[str]
) -> Iterable[SettingEntry]:
    named = environ.get(CONFIG_FILE_VARIABLE, "")
    path = Path(named).expanduser() if named else directory / CONFIG_FILE
    if not named and not path.is_file():
        return []
    shown = str(path) if named else CONFIG_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is not UTF-8"
        what = f"cannot read the settings file {shown}: {reason}"
        fix = f"correct or unset {CONFIG_FILE_VARIABLE}" if named else None
        raise SettingsFileError(what, fix=fix, fields={"path": str(path)}) from None
    values, lines = _parse(text, shown)

    def source(key: str) -> str:
        return f"{shown}:{lines[key]}" if key in lines else shown

    return _flatten(values, leaves, source)


def _parse(text: str, shown: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Parse YAML to values and the line of every dotted key."""
    try:
        root = _compose(text)
        values: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # Not the whole text of the error: it quotes the file, which may hold secrets.
        mark = getattr(error, "problem_mark", None)
        place = f"{shown}:{mark.line + 1}" if mark else shown
        problem = getattr(error, "problem", None) or "not YAML"
        what = f"cannot read the settings file {shown}: {problem}"
        raise SettingsFileError(what, evidence={"at line": place}) from None
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        what = f"the settings file {shown} is not a mapping of names to values"
        raise SettingsFileError(what, fix='write lines such as "commit_interval: 200ms"')
    lines: dict[str, int] = {}
    _note_lines(root, "", lines, shown)
    return {str(k): v for k, v in cast("dict[Any, Any]", values).items()}, lines


def _compose(text: str) -> yaml.Node | None:
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)  # pyright: ignore
    return cast("yaml.Node | None", root)


def _note_lines(node: yaml.Node | None, prefix: str, lines: dict[str, int], shown: str) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for name, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        spelled = str(cast("Any", name).value)
        spelled = _trim(spelled) if prefix == "spark." else spelled
        key = f"{prefix}{spelled}"
        line = name.start_mark.line + 1
        if key in lines:
            what = f"the settings file {shown} says {key} twice"
            evidence = {"lines": f"{lines[key]} and {line}"}
            raise SettingsFileError(what, evidence=evidence, fix="keep one of them")
        lines[key] = line
        _note_lines(value, f"{key}.", lines, shown)
