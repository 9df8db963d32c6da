"""A replica in a process of its own, asked over HTTP.

Owns: what such a process shows (probes, facts, metrics), and its life. Entry: serving.py. May
import: the rest of admin, and every room below it. Must not: write to Kafka, or start an engine.
"""
