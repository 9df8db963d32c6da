"""A real Kafka broker for development, without Docker.

Owns: fetching the broker's jars with the Ivy inside PySpark, their checksums, one KRaft process.
Entry: broker.py (DevBroker).
May import: config, java and below.
Must not: be needed by an application that has a broker already.
"""
