"""The registry's serdes by name and by class, loaded when one is needed."""

from __future__ import annotations

from typing import Any, Final

from mustela.serdes.base import Serde

__all__ = ["REGISTERED", "is_message", "message_serde", "registered_by_name"]

REGISTERED: Final = ("avro", "jsonschema", "protobuf")
"""The names."""


def registered_by_name(name: str) -> Serde[Any] | None:
    """Return the serde with a name, None if it is none of these.

    Raises:
        MissingLibraryError: If the library of its format is not installed.
    """
    # Not at the top of the file: workers without such serdes never load what they need.
    if name == "avro":
        from mustela.serdes.schemas.avro import AvroSerde

        return AvroSerde()
    if name == "protobuf":
        from mustela.serdes.schemas.protobuf import ProtobufSerde

        return ProtobufSerde()
    if name == "jsonschema":
        from mustela.serdes.schemas.jsonschema import JsonSchemaSerde

        return JsonSchemaSerde()
    return None


def is_message(spec: object) -> bool:
    """Whether a type is a message class of Protobuf, without importing protobuf."""
    return (
        isinstance(spec, type)
        and hasattr(spec, "DESCRIPTOR")
        and hasattr(spec, "SerializeToString")
    )


def message_serde(cls: type[Any]) -> Serde[Any]:
    """Return the serde of a message class.

    Raises:
        MissingLibraryError: If protobuf is not installed.
    """
    from mustela.serdes.schemas.protobuf import ProtobufSerde

    return ProtobufSerde(cls)
