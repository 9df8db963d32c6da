"""Serdes whose schemas are in a registry: Avro, Protobuf and JSON Schema in Confluent's format.

Owns: the wire format, subjects, the registry's client with its cache, and the three serdes.
Entry: registered.py (what the three have in common), client.py (the registry).
May import: base, structs, shape, model, errors.
Must not: know settings; `Serde.bound` passes a serde its registry as plain properties.
"""
