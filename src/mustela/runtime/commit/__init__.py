"""Turning the output of an epoch into one Kafka transaction, and finding out its outcome.

Owns: the barrier, the committer, the outcome of a commit, the committed state, newer instances.
Entry: committer.py, barrier.py, committed.py.
May import: the runtime's record, time, ports and engine.
"""
