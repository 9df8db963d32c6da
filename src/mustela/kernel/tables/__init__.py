"""Tables: the last value of each key, and how other steps look it up.

Owns: tables, versioned and global tables, regrouping their changes and settling them once per
epoch. Entry: table.py. May import: core and records.
"""
