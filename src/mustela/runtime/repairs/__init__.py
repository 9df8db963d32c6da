"""Where a person says how an application that does not run is to go on.

Owns: edits of the epoch record, dropped stores, rewritten rows, the fence before the write.
Entry: repair.py.
May import: gate, topics, commit and below.
"""
