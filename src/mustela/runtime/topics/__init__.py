"""An application's topics: needed ones, matches of patterns, those of global tables.

Owns: checks of topics, patterns, lagging metadata, how long a copy may stay unused.
Entry: application_topics.py.
May import: the runtime's record, ports and lease.
"""
