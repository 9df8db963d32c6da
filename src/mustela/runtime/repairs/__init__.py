"""Commands that decide how a stopped application continues.

Owns: edits of the epoch record, dropped stores, rewritten rows, the fence before the write.
Entry: repair.py.
May import: gate, topics, commit and below.
"""
