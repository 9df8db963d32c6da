"""Deciding what an epoch reads.

Owns: cuts by volume and by time, the budget of an epoch, what is started ahead of a commit.
Entry: epoch_cutter.py.
May import: the runtime's commit and below.
"""
