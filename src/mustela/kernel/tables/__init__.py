"""Tables: the last value of each key, and how others look it up.

Owns: tables, versioned and global tables, regrouping and settling of their changes.
Entry: table.py.
May import: core and records.
"""
