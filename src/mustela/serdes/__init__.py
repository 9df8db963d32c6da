"""Bytes to values and back, in Kafka's own formats where Kafka has one.

Owns: the Serde interface, the built-in serdes, the choice of a serde for a Python type.
Entry: base.py (Serde).
May import: model, errors.
Must not: know topics, stores or settings.
"""
