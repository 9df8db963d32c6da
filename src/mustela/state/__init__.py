"""Where the state of operators lives.

Owns: the store interfaces and specs, the in-memory stores, the LMDB store and its formats.
Entry: interfaces.py (Environment, Snapshot); overlay.py for reading and writing in an epoch;
store_kind.py for what tells one kind of store from another.
May import: serdes, clock, config and below; the only room that imports lmdb.
Must not: know operators, epochs of a run or Kafka.
"""
