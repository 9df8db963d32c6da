"""Joins of streams with streams, of tables with tables, and of streams with tables.

Owns: the six joins of two streams, lookups with and without grace, joins of tables.
Entry: stream_join.py, table_join.py.
May import: core, records and tables.
"""
