"""The logical topology: what was asked for, before anybody decides how to run it.

Owns: frozen nodes, step names, origins in user code, describe() and the fingerprint.
Entry: graph.py (Topology).
May import: api and every room below it.
Must not: hold physical choices such as lanes, partitions or stages.
"""
