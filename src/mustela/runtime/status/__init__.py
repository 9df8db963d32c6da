"""The status of a running application, for readers outside its thread.

Owns: the read model: immutable snapshots, which the driver's thread replaces and any thread reads.
Entry: board.py (StatusBoard).
May import: the names in commit.barrier, time, record and every room below runtime.
Must not: make the driver wait for a reader.
"""
