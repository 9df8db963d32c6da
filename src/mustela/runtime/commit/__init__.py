"""How the output of an epoch becomes one Kafka transaction, and what is known after it.

Owns: the barrier, the committer, the outcome of a commit, the committed state, newer instances.
Entry: committer.py, barrier.py, committed.py.
May import: the runtime's record, time, ports and engine.
"""
