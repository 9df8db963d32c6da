"""Aggregates without windows: of streams, of tables, of several streams at once.

Owns: folding per key, combining before the exchange, retraction.
Entry: aggregate.py.
May import: core.
"""
