"""Avro, Protobuf and JSON Schema whose schemas are in a Confluent-compatible registry."""

from __future__ import annotations

from mustela.serdes.base import (
    SerdePlace as SerdePlace,
)
from mustela.serdes.schemas.avro import (
    AvroRecord as AvroRecord,
    AvroSerde as AvroSerde,
)
from mustela.serdes.schemas.client import (
    Reference as Reference,
)
from mustela.serdes.schemas.jsonschema import (
    JsonSchemaSerde as JsonSchemaSerde,
)
from mustela.serdes.schemas.protobuf import (
    ProtobufSerde as ProtobufSerde,
)
