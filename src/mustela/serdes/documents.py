"""Keys and values as JSON documents, both ways and with a schema, by their serde.

A `DocumentForm` says for one serde what a value is in JSON. What is JSON in Kafka is the same JSON
here; numbers, text, dates and the like are what JSON has for them; bytes are base64.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any, ClassVar, Final, cast

import msgspec

from mustela.errors import EnvironmentFault, MustelaError, UsageError
from mustela.serdes.base import Serde
from mustela.serdes.document_schemas import Json, schema_of_type
from mustela.serdes.json import JsonSerde
from mustela.serdes.plain_values import NOT_A_NUMBER, UnshownValueError, plain_float, plain_value
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    FloatSerde,
    IntSerde,
    StrSerde,
    UUIDSerde,
    VoidSerde,
)
from mustela.serdes.row_versions import UpgradingSerde
from mustela.serdes.rows import RowSerde
from mustela.serdes.scalars import (
    DateSerde,
    DatetimeSerde,
    DecimalSerde,
    EnumSerde,
    TimedeltaSerde,
)
from mustela.serdes.schemas.registered import RegisteredSerde
from mustela.serdes.structs import PydanticSerde, StructSerde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde

__all__ = ["DocumentError", "DocumentForm", "form_of"]

_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_DOCUMENTS: Final = (StructSerde, PydanticSerde, RowSerde, JsonSerde)
"""Serdes whose bytes are JSON already."""


class DocumentError(UsageError):
    """A document is not a key or a value of the store.

    The text does not show the document: it may be private.
    """

    code = "QUERY_DOCUMENT"


class DocumentForm:
    """What the values of one serde are in JSON.

    Args:
        serde: The serde.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> form = form_of(resolve_serde(int))
        >>> form.to_document(7), form.from_document(7), form.from_text("7")
        (7, 7, 7)
        >>> form.schema("counts.key")
        ({'type': 'integer', 'format': 'int64'}, {})
    """

    text_is_json: bool = True
    """Whether a key in a path is JSON; otherwise it is the text itself."""

    def __init__(self, serde: Serde[Any]) -> None:
        self.serde = serde

    def to_document(self, value: Any) -> Any:
        """Return a value as JSON has it: dicts, lists, strings, numbers, booleans and None.

        A value that cannot be shown otherwise becomes its bytes in base64.
        """
        if value is None:
            return None
        try:
            return self._lowered(value)
        except EnvironmentFault:
            raise  # a registry that does not answer
        except (UnshownValueError, MustelaError, ValueError, TypeError, RecursionError):
            return b64encode(self.serde.serialize(value) or b"").decode()

    def from_document(self, document: Any) -> Any:
        """Return the value of a document.

        Raises:
            DocumentError: If it is none of the serde's.
        """
        try:
            value = self._raised(document)
            if self.serde.serialize(value) is None:
                msg = "null is none"
                raise self._wrong(msg)
        except (DocumentError, EnvironmentFault):
            raise
        except Exception as error:  # noqa: BLE001 - what a user's serde raises of a wrong value
            raise self._wrong(_said(error)) from None
        return value

    def from_text(self, text: str) -> Any:
        """Return the key that a path names.

        Raises:
            DocumentError: If it names none.
        """
        if not self.text_is_json:
            return self.from_document(text)
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            msg = "the text is not JSON"
            raise self._wrong(msg) from None
        return self.from_document(document)

    def to_text(self, key: Any) -> str:
        """Return a key as a path names it, before percent encoding."""
        document = self.to_document(key)
        if not self.text_is_json and isinstance(document, str):
            return document
        return msgspec.json.encode(document).decode()

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        """Return the JSON Schema of the documents, and the schemas that it refers to by name.

        Args:
            place: What the names begin with, such as ``orders.value``.
        """
        del place
        return {}, {}

    def _lowered(self, value: Any) -> Any:
        return plain_value(value)

    def _raised(self, document: Any) -> Any:
        return document

    def _wrong(self, problem: str) -> DocumentError:
        what = f"the document is not a value of serde {self.serde.name}: {problem}"
        fix = f"give {self.told()}; /openapi.json has the schema"
        return DocumentError(what, fix=fix, fields={"serde": self.serde.name})

    def told(self) -> str:
        """Return what is wanted, for an error's fix."""
        return "what the store holds"


class _Scalar(DocumentForm):
    """A string in JSON, which is the text that the serde itself writes."""

    text_is_json = False
    json_schema: ClassVar[Json] = {"type": "string"}

    def _lowered(self, value: Any) -> Any:
        data = self.serde.serialize(value)
        assert data is not None
        return data.decode()

    def _raised(self, document: Any) -> Any:
        if not isinstance(document, str):
            msg = "it is not a string"
            raise self._wrong(msg)
        return self.serde.deserialize(document.encode())

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return self.json_schema, {}

    def told(self) -> str:
        return "a string"


class _Decimal(_Scalar):
    json_schema: ClassVar[Json] = {"type": "string", "format": "decimal"}

    def told(self) -> str:
        return 'a decimal number as a string, such as "1.50"'


class _Date(_Scalar):
    json_schema: ClassVar[Json] = {"type": "string", "format": "date"}

    def told(self) -> str:
        return 'a date, such as "2026-01-31"'


class _Datetime(_Scalar):
    json_schema: ClassVar[Json] = {"type": "string", "format": "date-time"}

    def told(self) -> str:
        return 'a moment, such as "2026-01-31T12:00:00Z"'


class _Timedelta(_Scalar):
    json_schema: ClassVar[Json] = {"type": "string", "format": "duration"}

    def told(self) -> str:
        return 'a span of time, such as "PT1H"'


class _UUID(_Scalar):
    json_schema: ClassVar[Json] = {"type": "string", "format": "uuid"}

    def _lowered(self, value: Any) -> Any:
        return str(value)

    def _raised(self, document: Any) -> Any:
        if not isinstance(document, str):
            msg = "it is not a string"
            raise self._wrong(msg)
        from uuid import UUID

        return UUID(document)

    def told(self) -> str:
        return "a UUID"


class _Str(_Scalar):
    def _lowered(self, value: Any) -> Any:
        return value

    def _raised(self, document: Any) -> Any:
        if not isinstance(document, str):
            msg = "it is not a string"
            raise self._wrong(msg)
        return document


class _Bytes(_Scalar):
    json_schema: ClassVar[Json] = _BASE64

    def _lowered(self, value: Any) -> Any:
        return b64encode(value).decode()

    def _raised(self, document: Any) -> Any:
        if not isinstance(document, str):
            msg = "it is not base64"
            raise self._wrong(msg)
        standard = document.replace("-", "+").replace("_", "/")
        try:
            return b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        except (binascii.Error, ValueError):
            msg = "it is not base64"
            raise self._wrong(msg) from None

    def told(self) -> str:
        return "base64, with the letters of URLs or the usual ones"


class _Int(DocumentForm):
    json_schema: ClassVar[Json] = {"type": "integer", "format": "int64"}

    def _raised(self, document: Any) -> Any:
        if isinstance(document, bool) or not isinstance(document, int):
            msg = "it is not a whole number"
            raise self._wrong(msg)
        return document

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return self.json_schema, {}

    def told(self) -> str:
        return "a whole number"


class _Float(DocumentForm):
    def _lowered(self, value: Any) -> Any:
        return plain_float(value)

    def _raised(self, document: Any) -> Any:
        if isinstance(document, str) and document in NOT_A_NUMBER:
            return NOT_A_NUMBER[document]
        if isinstance(document, bool) or not isinstance(document, int | float):
            msg = "it is not a number"
            raise self._wrong(msg)
        return float(document)

    def from_text(self, text: str) -> Any:
        return self.from_document(text) if text in NOT_A_NUMBER else super().from_text(text)

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return {"anyOf": [{"type": "number"}, {"enum": list(NOT_A_NUMBER)}]}, {}

    def told(self) -> str:
        return "a number"


class _Bool(DocumentForm):
    def _raised(self, document: Any) -> Any:
        if not isinstance(document, bool):
            msg = "it is not true or false"
            raise self._wrong(msg)
        return document

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return {"type": "boolean"}, {}

    def told(self) -> str:
        return "true or false"


class _Void(DocumentForm):
    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return {"type": "null"}, {}


class _Enum(DocumentForm):
    """A member: by its value if all are text or whole numbers, otherwise by its name."""

    def __init__(self, serde: EnumSerde) -> None:
        super().__init__(serde)
        self._enum = serde
        self.text_is_json = serde.by == "int"

    def _lowered(self, value: Any) -> Any:
        if self._enum.by == "name":
            return value.name
        return int(value.value) if self._enum.by == "int" else str.__str__(value.value)

    def _raised(self, document: Any) -> Any:
        if self._enum.by == "name":
            if document not in self._enum.type.__members__:
                msg = "no member has that name"
                raise self._wrong(msg)
            return self._enum.type[document]
        if isinstance(document, bool) or not isinstance(document, int | str):
            msg = "no member has that value"
            raise self._wrong(msg)
        return self._enum.type(document)

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        del place
        return {"enum": [self._lowered(member) for member in self._enum.type]}, {}

    def told(self) -> str:
        return "a member of the enum"


class _Document(DocumentForm):
    """What is JSON in Kafka too: the same JSON."""

    def _lowered(self, value: Any) -> Any:
        return msgspec.json.decode(self.serde.serialize(value) or b"null")

    def _raised(self, document: Any) -> Any:
        return self.serde.deserialize(msgspec.json.encode(document))

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        if isinstance(self.serde, JsonSerde):
            kinds: dict[Any, str] = {dict: "object", list: "array"}
            kind = kinds.get(self.serde.expected)
            return ({} if kind is None else {"type": kind}), {}
        declared = self.serde.row if isinstance(self.serde, RowSerde) else self._type()
        return schema_of_type(declared, place)

    def _type(self) -> Any:
        return getattr(self.serde, "type", None)


class _Registered(DocumentForm):
    """Avro, Protobuf and JSON with a schema: the type in the program, if there is one."""

    def _raised(self, document: Any) -> Any:
        declared, message = self._type(), getattr(self.serde, "message", None)
        if message is not None:
            from google.protobuf.json_format import ParseDict

            return ParseDict(document, message())
        if declared is None:
            return document
        if hasattr(declared, "model_validate"):
            return declared.model_validate(document)
        return msgspec.convert(document, declared, strict=True)

    def _type(self) -> Any:
        return getattr(self.serde, "type", None)

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        declared = self._type()
        return ({}, {}) if declared is None else schema_of_type(declared, place)


class _Value(DocumentForm):
    """Values without a declared type: shown as JSON; as a key, what the JSON says."""

    def from_text(self, text: str) -> Any:
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            document = text  # a word without quotes is text
        return self.from_document(document)

    def to_text(self, key: Any) -> str:
        if isinstance(key, str):
            try:
                msgspec.json.decode(key)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return key
        return super().to_text(key)

    def _raised(self, document: Any) -> Any:
        serde = self.serde
        return (
            _hashable(document) if isinstance(serde, ValueSerde) and serde.sort_keys else document
        )

    def told(self) -> str:
        return "JSON; text without quotes is text unless it reads as JSON"


def _hashable(document: Any) -> Any:
    """Return a key: a list was a tuple, as lists cannot be keys."""
    return tuple(map(_hashable, document)) if isinstance(document, list) else document  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


class _Windowed(DocumentForm):
    """A key with its window: ``{"key": …, "start": …, "end": …}``, in milliseconds since 1970."""

    def __init__(self, serde: WindowedSerde[Any] | SessionWindowedSerde[Any]) -> None:
        super().__init__(serde)
        self._inner = form_of(serde.inner)
        self._session = isinstance(serde, SessionWindowedSerde)

    def _lowered(self, value: Any) -> Any:
        key = self._inner.to_document(value.key)
        return {"key": key, "start": value.start, "end": value.end}

    def _raised(self, document: Any) -> Any:
        if not isinstance(document, dict):
            msg = "it is not an object"
            raise self._wrong(msg)
        document = cast("dict[str, Any]", document)
        if not {"key", "start"} <= document.keys():
            msg = 'it has no "key" and "start"'
            raise self._wrong(msg)
        times: list[Any] = [document["start"], document.get("end", document["start"])]
        if not all(type(time) is int and 0 <= time < 2**63 for time in times):
            msg = "the times are not milliseconds since 1970"
            raise self._wrong(msg)
        from mustela.model import SessionWindowed, Windowed

        key = self._inner.from_document(document["key"])
        if self._session:
            return SessionWindowed(key, *times)
        made: Any = Windowed(key, *times)
        return self.serde.deserialize(self.serde.serialize(made))

    def schema(self, place: str) -> tuple[Json, dict[str, Json]]:
        inner, named = self._inner.schema(place)
        moment: Json = {"type": "integer", "format": "int64", "description": "ms since 1970"}
        return {
            "type": "object",
            "properties": {"key": inner, "start": moment, "end": moment},
            "required": ["key", "start", "end"],
        }, named

    def told(self) -> str:
        return '{"key": …, "start": …, "end": …}, with times in milliseconds since 1970'


_FORMS: Final[tuple[tuple[Any, Any], ...]] = (
    (StrSerde, _Str),
    (BytesSerde, _Bytes),
    (IntSerde, _Int),
    (FloatSerde, _Float),
    (BoolSerde, _Bool),
    (UUIDSerde, _UUID),
    (VoidSerde, _Void),
    (DecimalSerde, _Decimal),
    (DateSerde, _Date),
    (DatetimeSerde, _Datetime),
    (TimedeltaSerde, _Timedelta),
    (EnumSerde, _Enum),
    (_DOCUMENTS, _Document),
    (RegisteredSerde, _Registered),
    (ValueSerde, _Value),
    ((WindowedSerde, SessionWindowedSerde), _Windowed),
)


def form_of(serde: Serde[Any]) -> DocumentForm:
    """Return what the values of a serde are in JSON.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> form_of(resolve_serde(bytes)).to_document(b"raw")
        'cmF3'
    """
    if isinstance(serde, UpgradingSerde):
        serde = serde.current
    forms: Any = _FORMS
    for classes, form in forms:
        if isinstance(serde, classes):
            return form(serde)
    return DocumentForm(serde)


def _said(error: BaseException) -> str:
    """Return what an error says of a document, without the document."""
    if isinstance(error, MustelaError):
        return error.what
    return (
        str(error).splitlines()[0][:200]
        if isinstance(error, msgspec.ValidationError)
        else (f"{type(error).__name__}")
    )
