"""The epoch record: the only record of an application's progress, kept in Kafka.

Owns: the record, its deltas and rows, offsets of sources, names of stores.
Entry: epoch_record.py.
May import: plan and the rooms below it; no other part of the runtime.
"""
