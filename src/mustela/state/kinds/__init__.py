"""The semantics of stores, over ordered bytes.

Owns: the kinds of stores, each with its layout of keys and values and its format version.
Entry: key_value.py; the list of all kinds is KINDS in store_kind.py, one folder up.
May import: the other modules of state, serdes and below.
Must not: know LMDB.
"""
