"""What every operator is made of: batches, keyed rows, failures, a lane's state, output.

Owns: the operator's base, encoding of columns, what a failure does, event time, where output goes.
Entry: operator.py (the base of all operators), keyed.py (of those with state).
May import: plan and the rooms below it; no other part of the kernel.
"""
