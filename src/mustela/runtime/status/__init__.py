"""What a running application is at, for whoever looks from outside.

Owns: the read model: unchanging snapshots, which the driver's thread replaces and any thread reads.
Entry: board.py (StatusBoard).
May import: commit.barrier's words, time, record and every room below runtime.
Must not: make the driver wait for a reader.
"""
