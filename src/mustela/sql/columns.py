"""The columns of a store: of its keys, its windows, its values and what is kept beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, cast

import msgspec

from mustela.queries.shown import StoreInfo
from mustela.serdes.documents import form_of
from mustela.serdes.values import ValueSerde
from mustela.sql.libraries import arrow
from mustela.sql.serdes import declared_type, form_of_serde, is_scalar
from mustela.sql.types import Form, fields_of, form_of_type

__all__ = ["TABLE_KINDS", "Column", "Concealed", "Part", "columns_of", "key_serde_of"]

TABLE_KINDS: Final = frozenset(
    {"key_value", "timestamped_key_value", "window", "session", "versioned"}
)
"""The kinds of stores that are tables."""


class Concealed(Protocol):
    """What must not be shown."""

    def is_hidden(self, store: str) -> bool:
        """Return whether a store is not shown at all."""
        ...

    def paths(self, store: str) -> tuple[tuple[str, ...], ...]:
        """Return the fields of a store's values that are not shown."""
        ...

    def is_named(self, store: str) -> bool:
        """Return whether such a field is named for this very store."""
        ...

    def hider(self, store: str) -> Callable[[Any], Any]:
        """Return what hides the fields of a store's values."""
        ...


class Part(Enum):
    """What of a row is in a column."""

    KEY = "key"
    START = "window_start"
    END = "window_end"
    TIMESTAMP = "timestamp"
    VALID_TO = "valid_to"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column.

    Attributes:
        name: Its name.
        part: What of a row is in it.
        form: Its type, and how values are put into it.
        take: Takes it from the part; None for all of it.
        attribute: The name of the field in Python, if it is one.
    """

    name: str
    part: Part
    form: Form
    take: Callable[[Any], Any] | None = None
    attribute: str | None = None


def key_serde_of(info: StoreInfo) -> Any:
    """Return the serde of a store's keys."""
    return info.spec.key_serde or ValueSerde(sort_keys=True)


def columns_of(info: StoreInfo, hidden: Concealed | None = None) -> list[Column]:
    """Return the columns of a store.

    Args:
        info: The store.
        hidden: What must not be shown: a hidden field is not a column at all.
    """
    moment = Form(arrow().timestamp("us", tz="UTC"), lambda value: value * 1000)
    found = [*_key_columns(key_serde_of(info))]
    kind = info.spec.kind
    if kind in ("window", "session"):
        found += [Column(name=p.value, part=p, form=moment) for p in (Part.START, Part.END)]
    if info.timestamps or kind == "versioned":
        found.append(Column(name="timestamp", part=Part.TIMESTAMP, form=moment))
    if kind == "versioned":
        found.append(Column(name="valid_to", part=Part.VALID_TO, form=moment))
    return _named(found, _value_columns(info, hidden))


def _key_columns(serde: Any) -> Iterable[Column]:
    declared = declared_type(serde)
    fields = fields_of(declared)
    if not fields:
        yield Column(name="key", part=Part.KEY, form=form_of_serde(serde))
    for field in fields:
        form = form_of_type(field.type)
        yield Column(
            name=field.name, part=Part.KEY, form=form, take=field.of, attribute=field.attribute
        )


def _value_columns(info: StoreInfo, hidden: Concealed | None) -> Iterable[Column]:
    serde, name = info.spec.read_serde, info.name
    declared = declared_type(serde)
    fields = fields_of(declared)
    paths = () if hidden is None else hidden.paths(name)
    if not fields:
        form = form_of_serde(serde)
        if hidden is None or not paths:
            yield Column(name="value", part=Part.VALUE, form=form)
        elif not is_scalar(serde):
            yield Column(name="value", part=Part.VALUE, form=_partly(serde, hidden.hider(name)))
        elif not hidden.is_named(name):
            yield Column(name="value", part=Part.VALUE, form=form)
    for field in fields:
        about = [path for path in paths if path[0] in (field.name, field.attribute)]
        if any(len(path) == 1 for path in about):
            continue
        if about and hidden is not None:
            form, take = _partly(serde, hidden.hider(name), field.name), None
        else:
            form, take = form_of_type(field.type), field.of
        yield Column(
            name=field.name, part=Part.VALUE, form=form, take=take, attribute=field.attribute
        )


def _partly(serde: Any, hide: Callable[[Any], Any], field: str | None = None) -> Form:
    """Return the column of something with hidden parts: what HTTP shows of it, as JSON."""
    to_document = form_of(serde).to_document

    def convert(value: Any) -> str | None:
        document = hide(to_document(value))
        if field is not None:
            known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
            document = known.get(field)
        return None if document is None else msgspec.json.encode(document).decode()

    return Form(arrow().string(), convert)


def _named(first: list[Column], values: Iterable[Column]) -> list[Column]:
    """Give each column a name of its own: SQL does not tell upper case from lower."""
    taken: set[str] = set()
    found: list[Column] = []
    for column in (*first, *values):
        name = column.name
        if name.lower() in taken and column.part is Part.VALUE:
            name = f"value_{name}"
        number, plain = 2, name
        while name.lower() in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add(name.lower())
        found.append(
            Column(
                name=name,
                part=column.part,
                form=column.form,
                take=column.take,
                attribute=column.attribute,
            )
        )
    return found
