"""The epoch record: what Kafka alone knows of how far an application has come.

Owns: the record, its deltas and rows, offsets of sources, names of stores.
Entry: epoch_record.py.
May import: plan and the rooms below it; no other part of the runtime.
"""
