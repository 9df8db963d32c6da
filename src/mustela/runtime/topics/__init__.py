"""The topics of an application: those it needs, those its patterns find, those of global tables.

Owns: checks of topics, patterns, metadata that lags, how long a copy may be left.
Entry: application_topics.py.
May import: the runtime's record, ports and lease.
"""
