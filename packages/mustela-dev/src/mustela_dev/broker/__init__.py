"""A real Kafka broker for development, without Docker.

Owns: jar sets with checksums, fetched by the Ivy inside PySpark; one KRaft process; Kafka's tools.
Entry: process.py (DevelopmentBroker); daemon.py for one that outlives the program that starts it.
May import: from the library, java, errors and what deletes abandoned directories.
Must not: be needed by an application that has a broker already.
"""
