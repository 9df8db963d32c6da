"""What stores mean to their users, over ordered bytes.

Owns: the kinds of stores, each with its layout of keys and values and its format version.
Entry: key_value.py.
May import: the other modules of state, serdes and below.
Must not: know LMDB.
"""
