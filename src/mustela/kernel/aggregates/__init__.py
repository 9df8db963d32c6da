"""Aggregates without windows: of streams, of tables, of several streams at once.

Owns: the fold of a key, its combining before the exchange, retraction.
Entry: aggregate.py.
May import: core.
"""
